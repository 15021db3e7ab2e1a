/* Loaded into the tools alone, for what they need and an image may lack; nothing of it is inherited by what they start.
   "Who am I?" is answered for the session's own user, without which sftp-server and scp refuse to run: what the image knows comes first.
   And C.UTF-8 is found, without which tmux refuses: LOCPATH would do it too, but hides the image's own locales from everything below. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct passwd *(*by_uid)(uid_t);
typedef int (*by_uid_r)(uid_t, struct passwd *, char *, size_t, struct passwd **);
typedef char *(*choose)(int, const char *);

static char *told(const char *variable, char *otherwise) {
    char *value = getenv(variable);
    return value != NULL && *value != 0 && strchr(value, ':') == NULL ? value : otherwise;
}

static struct passwd own(void) {
    return (struct passwd){
        .pw_name = told("USER", "user"), .pw_passwd = "x", .pw_uid = getuid(), .pw_gid = getgid(),
        .pw_gecos = "", .pw_dir = told("HOME", "/"), .pw_shell = told("SHELL", "/bin/sh"),
    };
}

struct passwd *getpwuid(uid_t uid) {
    static struct passwd made;
    by_uid known = (by_uid)dlsym(RTLD_NEXT, "getpwuid");
    struct passwd *found = known != NULL ? known(uid) : NULL;
    if (found != NULL || uid != getuid())
        return found;
    made = own();
    return &made;
}

/* Copies one text into the caller's room. */
static char *copied(char **room, size_t *left, const char *text) {
    size_t size = strlen(text) + 1;
    char *at = *room;
    if (size > *left)
        return NULL;
    *room += size;
    *left -= size;
    return memcpy(at, text, size);
}

int getpwuid_r(uid_t uid, struct passwd *entry, char *room, size_t left, struct passwd **result) {
    by_uid_r known = (by_uid_r)dlsym(RTLD_NEXT, "getpwuid_r");
    int failed = known != NULL ? known(uid, entry, room, left, result) : ENOENT;
    if ((failed == 0 && *result != NULL) || failed == ERANGE || uid != getuid())
        return failed;
    *entry = own();
    char **texts[] = {&entry->pw_name, &entry->pw_passwd, &entry->pw_gecos, &entry->pw_dir, &entry->pw_shell};
    *result = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((*texts[i] = copied(&room, &left, *texts[i])) == NULL)
            return ERANGE;
    *result = entry;
    return 0;
}

/* lib/locale beside the library itself. */
static bool find_locales(char folder[PATH_MAX]) {
    Dl_info here;
    const char *end = dladdr((void *)find_locales, &here) != 0 ? strrchr(here.dli_fname, '/') : NULL;
    int size = end == NULL ? -1 : snprintf(folder, PATH_MAX, "%.*s/locale", (int)(end - here.dli_fname), here.dli_fname);
    return size > 0 && size < PATH_MAX;
}

char *setlocale(int category, const char *locale) {
    char folder[PATH_MAX];
    choose known = (choose)dlsym(RTLD_NEXT, "setlocale");
    if (known == NULL)
        return NULL;
    if (locale == NULL || getenv("LOCPATH") != NULL || !find_locales(folder))
        return known(category, locale);
    (void)setenv("LOCPATH", folder, 1);
    char *found = known(category, locale);
    (void)unsetenv("LOCPATH");
    return found != NULL ? found : known(category, locale);
}
