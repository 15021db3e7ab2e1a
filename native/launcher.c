/* The launcher: stands in the tools' bin folder under each program's name, and starts that program with the loader and libraries
   that lie beside it, so that it runs in any image. The loader is told by arguments: what the program starts inherits none of it. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_OWN_WORDS = 16, CANNOT = 126 };

static char root[PATH_MAX]; /* the folder above bin */

static _Noreturn void give_up(const char *what) {
    (void)fprintf(stderr, "fairy: %s cannot be started: %s\n", what, strerror(errno));
    exit(CANNOT);
}

static char *below(const char *path, const char *rest) {
    char *whole = NULL;
    if (asprintf(&whole, "%s/%s%s", root, path, rest) < 0)
        give_up(path);
    return whole;
}

/* From the kernel, never from argv[0] or the environment, which anybody may set. */
static const char *find_self(void) {
    ssize_t size = readlink("/proc/self/exe", root, sizeof root - 1);
    char *name = size > 0 ? strrchr(root, '/') : NULL;
    if (name == NULL)
        give_up("a program of /opt/fairy (is /proc mounted?)");
    *name = 0;
    char *bin = strrchr(root, '/');
    if (bin != NULL)
        *bin = 0;
    return name + 1;
}

/* After the image's own, which an empty name stands for. */
static void offer_terminals(void) {
    char *folder = below("share/terminfo", "");
    char *folders = NULL;
    if (getenv("TERMINFO_DIRS") == NULL && access(folder, R_OK | X_OK) == 0 && asprintf(&folders, ":%s", folder) > 0)
        (void)setenv("TERMINFO_DIRS", folders, 0);
}

int main(int count, char **words) {
    const char *name = find_self();
    bool is_fairy = strcmp(name, "fairy") == 0, is_python = is_fairy || strncmp(name, "python", 6) == 0;
    char **all = calloc((size_t)count + MOST_OWN_WORDS, sizeof *all);
    if (all == NULL || count < 1)
        give_up(name);
    char *own[MOST_OWN_WORDS] = {
        below("lib/ld.so", ""), "--library-path", below("lib", ""), "--preload", below("lib/fairy-user.so", ""), "--argv0",
        /* Python finds its library by its own path; a shell may be told by its name to be a login shell. */
        is_python ? below("bin/python3", "") : words[0],
        is_python ? below("libexec/python3", "") : below("libexec/", name),
    };
    /* -I: the user's own PYTHONPATH is for the user's own programs. */
    char *fairy[] = {"-I", "-m", "gpufairy", NULL};
    char **end = all;
    for (char **word = own; *word != NULL; word++)
        *end++ = *word;
    for (char **word = fairy; is_fairy && *word != NULL; word++)
        *end++ = *word;
    memcpy(end, words + 1, (size_t)count * sizeof *words); /* the NULL at their end too */
    offer_terminals();
    (void)execv(all[0], all);
    give_up(name);
}
