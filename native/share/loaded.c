/* The objects loaded into this process, walked by hand: asking dlsym for the real dlsym would ask ourselves. */
#include "share.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

enum { HIDDEN_VERSION = 0x8000, TYPE = 0xf };
enum { NOT_YET, BEING_WRITTEN, YES };
struct object {
    uintptr_t base;
    const char *name, *strings;
    const ElfW(Sym) *symbols;
    const ElfW(Half) *versions;
    const uint32_t *gnu_hash, *hash;
    const char *soname;
};
struct search {
    const char *const *sonames;
    const char *symbol;
    const void *address; /* instead of a symbol */
    void *found;
    struct object object; /* where it was found */
};

/* Weak: a program without libc is none of our business, but must start. */
extern int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *) __attribute__((weak));

static struct object kept[LIBRARIES]; /* objects that cannot go away any more: no need to walk to them again */
static uint32_t is_kept[LIBRARIES];
static const char *const SONAMES[LIBRARIES][3] = {{"libcuda.so.1"}, {"libnvidia-ml.so.1"}, {"libc.so.6", "libdl.so.2"}};

/* glibc writes addresses over some of these offsets, on some machines. */
static const void *at(uintptr_t base, uintptr_t value) {
    return (const void *)(value < base ? base + value : value);
}

static bool read_object(const struct dl_phdr_info *info, struct object *into) {
    const ElfW(Dyn) *entry = NULL;
    uintptr_t soname = 0;
    bool has_soname = false;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    *into = (struct object){.base = info->dlpi_addr, .name = info->dlpi_name};
    for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        const void *address = at(into->base, entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB)
            into->strings = address;
        else if (entry->d_tag == DT_SYMTAB)
            into->symbols = address;
        else if (entry->d_tag == DT_VERSYM)
            into->versions = address;
        else if (entry->d_tag == DT_GNU_HASH)
            into->gnu_hash = address;
        else if (entry->d_tag == DT_HASH)
            into->hash = address;
        else if (entry->d_tag == DT_SONAME) {
            soname = entry->d_un.d_val;
            has_soname = true;
        }
    }
    into->soname = has_soname && into->strings != NULL ? into->strings + soname : "";
    return into->strings != NULL && into->symbols != NULL;
}

static bool is_called(const struct object *object, const char *const *sonames) {
    for (int i = 0; i < 3 && sonames[i] != NULL; i++)
        if (same_text(object->soname, sonames[i]))
            return true;
    return false;
}

/* A function, in the version that a plain reference gets. */
static void *value(const struct object *object, uint32_t index, const char *symbol) {
    const ElfW(Sym) *entry = &object->symbols[index];
    if (entry->st_shndx == SHN_UNDEF || (entry->st_info & TYPE) != STT_FUNC || !same_text(object->strings + entry->st_name, symbol))
        return NULL;
    if (object->versions != NULL && (object->versions[index] & HIDDEN_VERSION) != 0)
        return NULL;
    return (void *)(object->base + entry->st_value);
}

static void *by_gnu_hash(const struct object *object, const char *symbol) {
    const uint32_t *table = object->gnu_hash;
    uint32_t buckets = table[0], first = table[1], filters = table[2], wanted = 5381;
    const uint32_t *bucket = table + 4 + filters * (sizeof(ElfW(Addr)) / sizeof(uint32_t)), *chain = bucket + buckets;
    for (const char *letter = symbol; *letter != 0; letter++)
        wanted = wanted * 33 + (uint8_t)*letter;
    uint32_t index = buckets == 0 ? 0 : bucket[wanted % buckets];
    for (; index >= first && index != 0; index++) {
        uint32_t seen = chain[index - first];
        void *found = (seen | 1) == (wanted | 1) ? value(object, index, symbol) : NULL;
        if (found != NULL || (seen & 1) != 0)
            return found;
    }
    return NULL;
}

static void *lookup(const struct object *object, const char *symbol) {
    if (object->gnu_hash != NULL)
        return by_gnu_hash(object, symbol);
    for (uint32_t i = 0; object->hash != NULL && i < object->hash[1]; i++) {
        void *found = value(object, i, symbol);
        if (found != NULL)
            return found;
    }
    return NULL;
}

static bool covers(const struct dl_phdr_info *info, const void *address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)address >= start && (uintptr_t)address < start + info->dlpi_phdr[i].p_memsz)
            return true;
    }
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *given) {
    struct search *search = given;
    struct object object;
    (void)size;
    if (!read_object(info, &object) || !is_called(&object, search->sonames))
        return 0;
    search->object = object;
    if (search->address != NULL)
        search->found = covers(info, search->address) ? (void *)search->address : NULL;
    else
        search->found = lookup(&object, search->symbol);
    return search->found != NULL;
}

/* So that what we remember of the driver stays true: a program may close it and open it again, elsewhere. */
static void keep(enum library library, const struct object *object) {
    uint32_t seen = NOT_YET;
    void *(*open)(const char *, int) = function_in(LIBRARY_C, "dlopen");
    if (open == NULL || object->name == NULL || open(object->name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == NULL)
        return;
    /* No lock, which a fork at this moment would leave taken in the child: there it is merely never kept. */
    if (!__atomic_compare_exchange_n(&is_kept[library], &seen, BEING_WRITTEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    kept[library] = *object;
    __atomic_store_n(&is_kept[library], YES, __ATOMIC_RELEASE);
}

void *function_in(enum library library, const char *symbol) {
    struct search search = {.sonames = SONAMES[library], .symbol = symbol};
    if (__atomic_load_n(&is_kept[library], __ATOMIC_ACQUIRE) == YES)
        return lookup(&kept[library], symbol);
    if (dl_iterate_phdr == NULL)
        return NULL;
    (void)dl_iterate_phdr(visit, &search);
    if (library != LIBRARY_C && search.found != NULL)
        keep(library, &search.object);
    return search.found;
}

bool is_in(enum library library, const void *address) {
    struct search search = {.sonames = SONAMES[library], .address = address};
    if (dl_iterate_phdr != NULL)
        (void)dl_iterate_phdr(visit, &search);
    return search.found != NULL;
}
