/* disk-walk: goes through one folder's tree, and says what is in it.
     disk-walk FOLDER KEPT top|uid full|quick HOT_S OLD_S STALE_S low|same
   KEPT is the file where this walk keeps what the next may trust. `quick` does not look into a folder that has not changed since, and in
   which nothing was written for HOT_S seconds. Nothing is ever opened but folders, no link is followed, no mount is crossed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"

enum { NEVER_TRUSTED = -1, BATCH = 1 << 17 }; /* entries of a folder that are held at once, to be looked at in the order in which they lie on the disk */

struct entry { uint64_t ino; size_t name; }; /* its name: where it begins among the names */
struct names { char *text; size_t used, room; };
struct list { struct entry *items; size_t count, room; struct names names; };
struct seen { uint64_t listed, trusted, looked_at, unread, vanished, mounts, too_deep; };

struct settings settings;
static struct seen seen;
static uint64_t dev;
static char *path; /* of the folder that is gone through, below the top; not ended by 0 */
static size_t path_length, path_room;
static struct { int number; char *path; size_t length; } troubles[MOST_TROUBLES];
static char **mount_points; /* below the top: not even looked at, for what is mounted there may never answer */
static size_t mount_count, mount_room;

static int64_t to_ns(struct statx_timestamp time) { return time.tv_sec * 1000000000 + time.tv_nsec; }

static uint64_t device(const struct statx *found) { return (uint64_t)found->stx_dev_major << 32 | found->stx_dev_minor; }

static bool look(int folder, const char *name, struct statx *found) {
    return statx(folder, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, found) == 0;
}

static void trouble(int number) {
    if (number == ENOENT) {
        seen.vanished++;
        return;
    }
    if (seen.unread < MOST_TROUBLES) {
        size_t room = 0;
        troubles[seen.unread].number = number;
        troubles[seen.unread].path = memcpy(grown(NULL, &room, path_length, 1), path, path_length);
        troubles[seen.unread].length = path_length;
    }
    seen.unread++;
}

static bool ends_in(const char *name, size_t length, const char *end) {
    size_t its = strlen(end);
    return length > its && memcmp(name + length - its, end, its) == 0;
}

static bool is_checkpoint(const char *name, size_t length) {
    return ends_in(name, length, ".pt") || ends_in(name, length, ".pth") || ends_in(name, length, ".ckpt")
           || ends_in(name, length, ".safetensors");
}

/* `core` and `core.1234`, as the kernel calls them. */
static bool is_core(const char *name) {
    if (strncmp(name, "core", 4) != 0 || (name[4] != 0 && name[4] != '.'))
        return false;
    return name[4] == 0 || (name[5] != 0 && name[5 + strspn(name + 5, "0123456789")] == 0);
}

static bool is_conda(const char *parent) {
    static const char *const known[] = {".conda", "conda", "miniconda", "miniconda3", "anaconda", "anaconda3", "miniforge3", "mambaforge", "micromamba"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(parent, known[i]) == 0)
            return true;
    return false;
}

static enum sort sort_of(const char *parent, const char *name, enum sort above) {
    bool in_cache = strcmp(parent, ".cache") == 0;
    if (in_cache && (strcmp(name, "pip") == 0 || strcmp(name, "uv") == 0))
        return PIP;
    if (in_cache && strcmp(name, "huggingface") == 0)
        return HUGGINGFACE;
    if (in_cache && strcmp(name, "torch") == 0)
        return TORCH;
    if (strcmp(name, "pkgs") == 0 && is_conda(parent))
        return CONDA;
    if (above != NO_SORT)
        return above;
    if (strcmp(name, ".cache") == 0)
        return CACHE;
    if (strcmp(name, "__pycache__") == 0)
        return PYCACHE;
    if (strcmp(name, ".ipynb_checkpoints") == 0)
        return NOTEBOOKS;
    return strncmp(name, ".Trash-", 7) == 0 || (strcmp(name, "Trash") == 0 && strcmp(parent, "share") == 0) ? TRASH : NO_SORT;
}

static void add_file(struct folder *folder, const char *name, const struct statx *found) {
    uint64_t bytes = found->stx_blocks * 512;
    uint32_t uid = settings.by_top ? 0 : found->stx_uid;
    int64_t written = to_ns(found->stx_mtime), read = to_ns(found->stx_atime), used = read > written ? read : written;
    bool old = used < settings.old_ns;
    folder->newest_ns = written > folder->newest_ns ? written : folder->newest_ns;
    if (bytes >= LEAST_NAMED && (would_take(&folder->largest, bytes) || old)) {
        struct named one = {bytes, 0, used, uid, (uint32_t)strlen(name), (char *)name};
        offer(&folder->largest, one);
        if (old)
            offer(&folder->oldest, one);
    }
    if (found->stx_nlink > 1) {
        folder->links = grown(folder->links, &folder->all_links, folder->link_count + 1, sizeof *folder->links);
        folder->links[folder->link_count++] = (struct link){found->stx_ino, bytes, uid, old};
        return;
    }
    struct own *own = own_of(folder, uid);
    own->inodes++;
    own->single++;
    own->bytes += bytes;
    own->single_bytes += bytes;
    own->old_bytes += old ? bytes : 0;
    if (bytes < LEAST_NAMED)
        return;
    if (used < settings.stale_ns && is_checkpoint(name, strlen(name))) {
        own->checkpoints++;
        own->checkpoint_bytes += bytes;
    } else if (is_core(name)) {
        own->cores++;
        own->core_bytes += bytes;
    }
}

static void note_entry(struct list *list, uint64_t ino, const char *name) {
    size_t length = strlen(name) + 1;
    list->items = grown(list->items, &list->room, list->count + 1, sizeof *list->items);
    list->names.text = grown(list->names.text, &list->names.room, list->names.used + length, 1);
    memcpy(list->names.text + list->names.used, name, length);
    list->items[list->count++] = (struct entry){ino, list->names.used};
    list->names.used += length;
}

static int by_ino(const void *one, const void *other) {
    uint64_t first = ((const struct entry *)one)->ino, second = ((const struct entry *)other)->ino;
    return (first > second) - (first < second);
}

static void in_order(struct list *list) {
    for (size_t i = 1; i < list->count; i++)
        if (list->items[i - 1].ino > list->items[i].ino) {
            qsort(list->items, list->count, sizeof *list->items, by_ino);
            return;
        }
}

static void free_list(struct list *list) {
    free(list->items);
    free(list->names.text);
    *list = (struct list){0};
}

/* Looks at what was gathered; folders go to `below`. */
static void look_at_batch(int here, struct list *batch, struct folder *folder, struct list *below) {
    in_order(batch);
    for (size_t i = 0; i < batch->count; i++) {
        const char *name = batch->names.text + batch->items[i].name;
        struct statx found;
        seen.looked_at++;
        if (!look(here, name, &found)) {
            trouble(errno);
            continue;
        }
        if (S_ISDIR(found.stx_mode))
            note_entry(below, found.stx_ino, name); /* the file system did not say so at once */
        else
            add_file(folder, name, &found);
    }
    batch->count = batch->names.used = 0;
}

static void list_folder(int here, struct folder *folder, struct list *below) {
    static char buffer[1 << 17] __attribute__((aligned(8)));
    struct list batch = {0};
    seen.listed++;
    for (;;) {
        long got = syscall(SYS_getdents64, here, buffer, sizeof buffer);
        if (got < 0)
            trouble(errno);
        if (got <= 0)
            break;
        for (long at = 0; at < got;) {
            const struct dirent64 *one = (const struct dirent64 *)(buffer + at);
            at += one->d_reclen;
            if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
                continue;
            note_entry(one->d_type == DT_DIR ? below : &batch, one->d_ino, one->d_name);
            if (batch.count == BATCH)
                look_at_batch(here, &batch, folder, below);
        }
    }
    look_at_batch(here, &batch, folder, below);
    in_order(below);
    free_list(&batch);
}

static int open_folder(int above, const char *name) {
    int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int opened = openat(above, name, how | O_NOATIME);
    return opened < 0 && errno == EPERM ? openat(above, name, how) : opened; /* of somebody else, and we are not root */
}

static bool is_mount_point(void) {
    for (size_t i = 0; i < mount_count; i++)
        if (strlen(mount_points[i]) == path_length && memcmp(mount_points[i], path, path_length) == 0)
            return true;
    return false;
}

static bool trusted(const struct kept *kept, const struct statx *found) {
    const struct folder *was = &kept->folder;
    return !settings.full && was->ino == found->stx_ino && was->mtime_ns == to_ns(found->stx_mtime)
           && was->ctime_ns == to_ns(found->stx_ctime) && was->newest_ns < settings.hot_ns;
}

struct visit { int above; const char *parent, *name; int depth; enum sort sort; const struct kept *kept; };

static struct total walk(struct visit visit);

static size_t enter_name(const char *name) {
    size_t before = path_length, length = strlen(name);
    path = grown(path, &path_room, path_length + length + 2, 1);
    if (path_length > 0)
        path[path_length++] = '/';
    memcpy(path + path_length, name, length);
    path_length += length;
    return before;
}

static void add(struct total *to, struct total more) {
    to->bytes += more.bytes;
    to->inodes += more.inodes;
    to->newest_ns = more.newest_ns > to->newest_ns ? more.newest_ns : to->newest_ns;
}

/* What was kept of a folder's folders lies in the order of their inodes, as they are now gone through. */
static void walk_below(struct visit visit, int here, const struct list *below, struct total *total) {
    const char *at = visit.kept == NULL ? NULL : visit.kept->below, *end = visit.kept == NULL ? NULL : visit.kept->end;
    for (size_t i = 0; i < below->count; i++) {
        struct kept kept = {0};
        bool known = false;
        while (at != NULL && at < end && !known) {
            release(&kept.folder);
            if (!read_kept(at, end, &kept)) {
                at = NULL;
            } else if (kept.folder.ino > below->items[i].ino) {
                break;
            } else {
                known = kept.folder.ino == below->items[i].ino;
                at = kept.end;
            }
        }
        const char *name = below->names.text + below->items[i].name;
        struct visit next = {here, visit.name, name, visit.depth + 1, sort_of(visit.name, name, visit.sort), known ? &kept : NULL};
        add(total, walk(next));
        release(&kept.folder);
    }
}

/* Nothing in this folder itself is looked at: what is kept of it holds. Its folders are, by the names that are kept. */
static void walk_trusted(struct visit visit, int here, struct total *total) {
    for (const char *at = visit.kept->below; at < visit.kept->end;) {
        struct kept kept;
        if (read_kept(at, visit.kept->end, &kept)) {
            struct visit next = {here, visit.name, kept.name, visit.depth + 1, sort_of(visit.name, kept.name, visit.sort), &kept};
            add(total, walk(next));
            at = kept.end;
        } else {
            at = visit.kept->end;
        }
        release(&kept.folder);
    }
}

/* Its own blocks count too, as for du. */
static void begin_folder(struct folder *folder, const struct statx *found) {
    *folder = (struct folder){
        .ino = found->stx_ino, .mtime_ns = to_ns(found->stx_mtime), .ctime_ns = to_ns(found->stx_ctime), .newest_ns = to_ns(found->stx_mtime),
        .largest = {.most = MOST_LARGEST}, .oldest = {.most = MOST_LARGEST},
    };
    struct own *own = own_of(folder, settings.by_top ? 0 : found->stx_uid);
    own->inodes++;
    own->bytes += found->stx_blocks * 512;
}

/* -1: there is no need to, or it cannot be opened: then it is counted itself, and never trusted. */
static int opened(const struct visit *visit, bool *known) {
    if (*known && visit->kept->below == visit->kept->end)
        return -1;
    int here = visit->depth > DEEPEST ? -1 : open_folder(visit->above, visit->name);
    if (here >= 0)
        return here;
    *known = false;
    if (visit->depth > DEEPEST)
        seen.too_deep++;
    else
        trouble(errno);
    return -1;
}

static struct total walk_entered(struct visit visit, const struct statx *found) {
    bool known = visit.kept != NULL && trusted(visit.kept, found);
    int here = opened(&visit, &known);
    struct folder fresh = {0};
    struct list below = {0};
    seen.trusted += known;
    if (!known) {
        begin_folder(&fresh, found);
        if (here >= 0)
            list_folder(here, &fresh, &below);
        else
            fresh.mtime_ns = NEVER_TRUSTED;
    }
    const struct folder *folder = known ? &visit.kept->folder : &fresh;
    struct total total = add_folder(folder, visit.sort, path, path_length);
    struct place place = keep(folder, visit.name);
    if (here >= 0 && known)
        walk_trusted(visit, here, &total);
    else if (here >= 0)
        walk_below(visit, here, &below, &total);
    kept_below(place);
    if (here >= 0)
        close(here);
    release(&fresh);
    free_list(&below);
    add_size(visit.depth, settings.by_top ? 0 : found->stx_uid, total, path, path_length);
    return total;
}

static struct total walk(struct visit visit) {
    struct total total = {0};
    struct statx found;
    size_t before = visit.depth == 0 ? 0 : enter_name(visit.name);
    if (visit.depth == 1)
        enter_top(visit.name);
    if (visit.depth > 0 && is_mount_point())
        seen.mounts++;
    else if (!look(visit.above, visit.name, &found))
        trouble(errno);
    else if (!S_ISDIR(found.stx_mode))
        seen.vanished++; /* something else is there now: the next walk sees it */
    else if (device(&found) != dev)
        seen.mounts++;
    else
        total = walk_entered(visit, &found);
    path_length = before;
    return total;
}

/* As the kernel writes blanks and the like in the names of mounts. */
static void unescape(char *text) {
    char *to = text;
    for (; *text != 0; to++) {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] != 0 && text[3] != 0) {
            *to = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
            text += 4;
        } else {
            *to = *text++;
        }
    }
    *to = 0;
}

static void find_mounts(const char *top) {
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, *where = NULL;
    size_t room = 0, length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    while (file != NULL && getline(&line, &room, file) > 0) {
        if (sscanf(line, "%*s %*s %*s %*s %ms", &where) != 1)
            continue;
        unescape(where);
        if (strncmp(where, top, length) == 0 && where[length] == '/' && where[length + 1] != 0) {
            mount_points = grown(mount_points, &mount_room, mount_count + 1, sizeof *mount_points);
            mount_points[mount_count++] = strdup(where + length + 1);
        }
        free(where);
        where = NULL;
    }
    free(line);
    if (file != NULL)
        (void)fclose(file);
}

/* Whoever works here comes first: on the CPUs and at the disks. */
static void step_back(void) {
    struct sched_param none = {0};
    (void)setpriority(PRIO_PROCESS, 0, 19);
    (void)sched_setscheduler(0, SCHED_IDLE, &none);
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

static void allow_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DEEPEST + 64) {
        limit.rlim_cur = limit.rlim_max < DEEPEST + 64 ? limit.rlim_max : DEEPEST + 64;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void print_walk(struct total total) {
    printf("walk\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n",
           total.bytes, total.inodes, seen.listed, seen.trusted, seen.looked_at, seen.unread, seen.vanished, seen.mounts, seen.too_deep);
    for (size_t i = 0; i < MOST_TROUBLES && i < seen.unread; i++) {
        printf("unread\t%s\t", strerror(troubles[i].number));
        print_text(troubles[i].path, troubles[i].length);
        putchar('\n');
    }
}

int main(int count, char **words) {
    struct statx found;
    if (count != 9) {
        (void)fputs("disk-walk FOLDER KEPT top|uid full|quick HOT_S OLD_S STALE_S low|same\n", stderr);
        return 2;
    }
    if (strcmp(words[8], "low") == 0)
        step_back();
    allow_descriptors();
    settings.by_top = strcmp(words[3], "top") == 0;
    settings.full = strcmp(words[4], "full") == 0;
    settings.now_ns = (int64_t)time(NULL) * 1000000000;
    settings.hot_ns = settings.now_ns - atoll(words[5]) * 1000000000;
    settings.old_ns = settings.now_ns - atoll(words[6]) * 1000000000;
    settings.stale_ns = settings.now_ns - atoll(words[7]) * 1000000000;
    bool there = look(AT_FDCWD, words[1], &found);
    if (!there || !S_ISDIR(found.stx_mode)) {
        (void)fprintf(stderr, "%s\n", there ? "it is no folder" : strerror(errno));
        return 1;
    }
    dev = device(&found);
    find_mounts(words[1]);
    path = grown(NULL, &path_room, PATH_MAX, 1);
    struct kept kept = {0};
    bool known = open_kept(words[2], dev) && first_kept(&kept);
    (void)begin_keeping(words[2], dev);
    enter_top("");
    struct total total = walk((struct visit){AT_FDCWD, "", words[1], 0, NO_SORT, known ? &kept : NULL});
    (void)end_keeping(words[2]);
    print_walk(total);
    print_sums();
    puts("done");
    return fflush(stdout) == 0 ? 0 : 1;
}
