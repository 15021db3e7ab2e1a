/* The disk walk: what one file system's tree holds, by whom and where, in one pass that follows no link and crosses no mount.
   walk.c goes through the tree; sums.c adds up; kept.c keeps what each folder had, so that the next walk need not look at all of it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MOST_LARGEST = 20,       /* files and folders named for each owner */
    MOST_FOLDERS = 200,      /* folders named of the whole tree */
    FOLDERS_DOWN_TO = 3,     /* how deep those are, below the tree's top; of a home one deeper, since it lies in the folder of homes */
    MOST_OWNERS = 1024,      /* of more, the others are one: nobody but root makes so many */
    DEEPEST = 1000,          /* folders within folders: each has a descriptor while what is below is gone through */
    MOST_TROUBLES = 20,      /* folders named that could not be read */
    LEAST_NAMED = 1 << 20,   /* bytes: smaller files are counted and never named */
};

/* What may be removed without much regret; the names are what core/disk_advice.py knows them by. */
enum sort { NO_SORT, PIP, CONDA, HUGGINGFACE, TORCH, CACHE, PYCACHE, NOTEBOOKS, TRASH, CHECKPOINTS, CORES, SORTS };

struct settings {
    bool by_top;       /* whose it is: the folder at the top that it lies in, as of homes; else the uid on it */
    bool full;         /* trust nothing that was kept */
    int64_t now_ns;
    int64_t hot_ns;    /* a folder in which something was written since is looked at again, whatever is kept of it */
    int64_t old_ns;    /* what nobody used since is old */
    int64_t stale_ns;  /* the same of checkpoints */
};
extern struct settings settings;

/* What lies in one folder itself, by uid. Files with several names are not in it: they count once in the whole tree. */
struct own {
    uint32_t uid, inodes, single, checkpoints, cores;
    uint32_t unused;
    uint64_t bytes, old_bytes, single_bytes, checkpoint_bytes, core_bytes;
};
struct link { uint64_t ino, bytes; uint32_t uid, old; };
struct named { uint64_t bytes, inodes; int64_t used_ns; uint32_t uid, length; char *name; };
/* The largest of some, as a heap: the smallest is the first of them, and the next to go. */
struct named_list { int count, most; struct named *items; };

struct folder {
    uint64_t ino;
    int64_t mtime_ns, ctime_ns, newest_ns;
    struct own *own;
    struct link *links;
    size_t owns, all_owns, link_count, all_links;
    struct named_list largest, oldest;
};

struct total { uint64_t bytes, inodes; int64_t newest_ns; };

/* sums.c */
void *grown(void *items, size_t *room, size_t wanted, size_t size);
bool would_take(const struct named_list *list, uint64_t bytes);
void offer(struct named_list *list, struct named one); /* its name is copied */
void empty(struct named_list *list);
struct own *own_of(struct folder *folder, uint32_t uid);
struct total add_folder(const struct folder *folder, enum sort sort, const char *path, size_t length);
void add_size(int depth, uint32_t uid, struct total total, const char *path, size_t length);
void enter_top(const char *name);
void print_sums(void);
void print_text(const char *text, size_t length);

/* kept.c: what the last walk kept, and what this one keeps */
struct kept { const char *at, *below, *end; struct folder folder; const char *name; size_t name_length; };
bool open_kept(const char *path, uint64_t dev);
bool first_kept(struct kept *found);
bool read_kept(const char *at, const char *end, struct kept *found);
bool begin_keeping(const char *path, uint64_t dev);
struct place { uint64_t at, after; };
struct place keep(const struct folder *folder, const char *name);
void kept_below(struct place place); /* all that was kept since belongs below it */
bool end_keeping(const char *path);
void release(struct folder *folder);
