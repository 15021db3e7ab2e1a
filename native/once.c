/* A command that begins once, whatever its engine does. A Docker that is killed while it starts a container may forget that it did: the
   container is "created" as before, and what runs in it is known to nobody when the session is launched again. So the porter keeps in a
   file outside how far it came, four bytes written in place (a full disk has room for them): "new", "ran", "two" when it was begun again
   and refused, or three figures, the command's exit code, which is then the second start's too. Without a command of its own a session may
   begin again: nobody was let in yet. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "porter.h"

enum { RECORD = 4 };
static int kept = -1;

static bool keep(const char *word) {
    return pwrite(kept, word, RECORD, 0) == RECORD;
}

bool begin_once(const char *path, bool may_again) {
    char found[RECORD + 1] = {0};
    kept = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (kept < 0)
        return false;
    /* Held as long as we live: another porter with the same file is told from one that ended. */
    bool other = flock(kept, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (pread(kept, found, RECORD, 0) < 0)
        return false;
    if (may_again)
        return keep("ran\n");
    char *end = NULL;
    long code = strtol(found, &end, 10);
    if (end == found + RECORD - 1 && *end == '\n' && code >= 0 && code <= 255)
        exit((int)code);
    if (other || strcmp(found, "ran\n") == 0 || strcmp(found, "two\n") == 0) {
        (void)keep("two\n");
        (void)fputs("fairy: the session's command has begun before, and is not begun twice\n", stderr);
        exit(NOT_STARTED);
    }
    return keep("ran\n");
}

void ended_once(int code) {
    char word[16];
    (void)snprintf(word, sizeof word, "%03d\n", code & 255);
    if (kept >= 0)
        (void)keep(word);
}
