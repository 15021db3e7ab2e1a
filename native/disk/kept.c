/* What a walk keeps of every folder: one file, each folder followed by those in it. It is read as it was written, from front to end,
   and mapped, so that it takes no memory that anybody else could use. One that is cut short or of another form is not there at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"

enum { BUFFER = 1 << 18 };
static const char MAGIC[8] = "fdisk01";

struct head { char magic[8]; uint64_t dev, length, by_top; };
struct record {
    uint64_t ino;
    int64_t mtime_ns, ctime_ns, newest_ns;
    uint64_t below; /* bytes of all records below */
    uint32_t length, name_length, owns, links, largest, oldest;
};
struct kept_name { uint64_t bytes; int64_t used_ns; uint32_t uid, length; };

static const char *kept_first, *kept_last;
static char *buffer;
static size_t filled;
static uint64_t flushed;
static int out = -1;
static bool failed;

bool open_kept(const char *path, uint64_t dev) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat found;
    if (file < 0)
        return false;
    bool sound = fstat(file, &found) == 0 && (size_t)found.st_size >= sizeof(struct head);
    void *mapped = sound ? mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (mapped == MAP_FAILED)
        return false;
    struct head head;
    memcpy(&head, mapped, sizeof head);
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.dev != dev || head.by_top != settings.by_top
        || head.length != (uint64_t)found.st_size)
        return false;
    madvise(mapped, (size_t)found.st_size, MADV_SEQUENTIAL);
    kept_first = (const char *)mapped + sizeof head;
    kept_last = (const char *)mapped + found.st_size;
    return true;
}

bool first_kept(struct kept *found) { return kept_first != NULL && read_kept(kept_first, kept_last, found); }

static bool take(const char **at, const char *end, void *to, size_t size) {
    if ((size_t)(end - *at) < size)
        return false;
    memcpy(to, *at, size);
    *at += size;
    return true;
}

static bool take_named(const char **at, const char *end, struct named_list *list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct kept_name one;
        if (!take(at, end, &one, sizeof one) || (size_t)(end - *at) < one.length)
            return false;
        offer(list, (struct named){one.bytes, 0, one.used_ns, one.uid, one.length, (char *)*at});
        *at += one.length;
    }
    return true;
}

/* False: nothing that can be trusted is there. Its folder must be released in either case. */
bool read_kept(const char *at, const char *end, struct kept *found) {
    struct record record;
    *found = (struct kept){.at = at};
    const char *own_end = at;
    if (!take(&at, end, &record, sizeof record) || record.length < sizeof record || record.length > (size_t)(end - found->at))
        return false;
    own_end += record.length;
    if (record.below > (uint64_t)(end - own_end) || record.largest > MOST_LARGEST || record.oldest > MOST_LARGEST)
        return false;
    struct folder *folder = &found->folder;
    *folder = (struct folder){
        .ino = record.ino, .mtime_ns = record.mtime_ns, .ctime_ns = record.ctime_ns, .newest_ns = record.newest_ns,
        .largest = {.most = MOST_LARGEST}, .oldest = {.most = MOST_LARGEST},
    };
    if ((size_t)(own_end - at) / sizeof(struct own) < record.owns || (size_t)(own_end - at) / sizeof(struct link) < record.links)
        return false;
    folder->own = grown(NULL, &folder->all_owns, record.owns, sizeof *folder->own);
    folder->links = grown(NULL, &folder->all_links, record.links, sizeof *folder->links);
    folder->owns = record.owns;
    folder->link_count = record.links;
    if (!take(&at, own_end, folder->own, record.owns * sizeof *folder->own)
        || !take(&at, own_end, folder->links, record.links * sizeof *folder->links)
        || !take_named(&at, own_end, &folder->largest, record.largest) || !take_named(&at, own_end, &folder->oldest, record.oldest)
        || (size_t)(own_end - at) != (size_t)record.name_length + 1 || at[record.name_length] != 0)
        return false;
    found->name = at;
    found->name_length = record.name_length;
    found->below = own_end;
    found->end = own_end + record.below;
    return true;
}

void release(struct folder *folder) {
    free(folder->own);
    free(folder->links);
    empty(&folder->largest);
    empty(&folder->oldest);
    *folder = (struct folder){0};
}

static void flush(void) {
    for (size_t done = 0; done < filled && !failed;) {
        ssize_t wrote = write(out, buffer + done, filled - done);
        if (wrote < 0 && errno != EINTR)
            failed = true; /* the disk is full: the sums are told all the same, and the next walk is a full one */
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    flushed += filled;
    filled = 0;
}

static void put(const void *from, size_t size) {
    const char *rest = from;
    while (size > 0) {
        size_t piece = size < BUFFER - filled ? size : BUFFER - filled;
        memcpy(buffer + filled, rest, piece);
        filled += piece;
        rest += piece;
        size -= piece;
        if (filled == BUFFER)
            flush();
    }
}

bool begin_keeping(const char *path, uint64_t dev) {
    char *part = NULL;
    buffer = malloc(BUFFER);
    if (buffer == NULL || asprintf(&part, "%s.part", path) < 0)
        return false;
    out = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    free(part);
    struct head head = {.dev = dev, .by_top = settings.by_top};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    put(&head, sizeof head);
    return out >= 0;
}

static void put_named(const struct named_list *list) {
    for (int i = 0; i < list->count; i++) {
        const struct named *one = &list->items[i];
        struct kept_name name = {one->bytes, one->used_ns, one->uid, one->length};
        put(&name, sizeof name);
        put(one->name, one->length);
    }
}

static size_t size_of(const struct named_list *list) {
    size_t size = 0;
    for (int i = 0; i < list->count; i++)
        size += sizeof(struct kept_name) + list->items[i].length;
    return size;
}

struct place keep(const struct folder *folder, const char *name) {
    uint64_t at = flushed + filled;
    if (out < 0)
        return (struct place){0};
    size_t name_length = strlen(name);
    size_t length = sizeof(struct record) + folder->owns * sizeof *folder->own + folder->link_count * sizeof *folder->links
                    + size_of(&folder->largest) + size_of(&folder->oldest) + name_length + 1;
    struct record record = {
        folder->ino, folder->mtime_ns, folder->ctime_ns, folder->newest_ns, 0, (uint32_t)length, (uint32_t)name_length,
        (uint32_t)folder->owns, (uint32_t)folder->link_count, (uint32_t)folder->largest.count, (uint32_t)folder->oldest.count,
    };
    if (length > UINT32_MAX)
        failed = true; /* a folder of so many files with several names: nothing is kept, and the next walk looks at all */
    put(&record, sizeof record);
    put(folder->own, folder->owns * sizeof *folder->own);
    put(folder->links, folder->link_count * sizeof *folder->links);
    put_named(&folder->largest);
    put_named(&folder->oldest);
    put(name, name_length + 1);
    return (struct place){at, at + length};
}

static void patch(uint64_t at, uint64_t value) {
    char bytes[sizeof value];
    memcpy(bytes, &value, sizeof value);
    for (size_t i = 0; i < sizeof value; i++, at++) {
        if (at >= flushed)
            buffer[at - flushed] = bytes[i];
        else if (pwrite(out, &bytes[i], 1, (off_t)at) != 1)
            failed = true;
    }
}

void kept_below(struct place place) {
    if (out >= 0 && flushed + filled > place.after)
        patch(place.at + offsetof(struct record, below), flushed + filled - place.after);
}

bool end_keeping(const char *path) {
    char *part = NULL;
    if (out < 0 || asprintf(&part, "%s.part", path) < 0)
        return false;
    patch(offsetof(struct head, length), flushed + filled);
    flush();
    failed |= close(out) != 0;
    bool kept = !failed && rename(part, path) == 0;
    if (!kept) {
        (void)unlink(part);
        (void)unlink(path); /* an older one would be trusted for changes that it does not know of */
    }
    free(part);
    return kept;
}
