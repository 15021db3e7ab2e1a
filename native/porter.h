/* The porter: a session's first process. What its parts know of each other; the wire is told in door.c. */
#ifndef PORTER_H
#define PORTER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    MOST_CONNECTIONS = 4096,
    MOST_RELAYED = 64,
    PATIENCE_MS = 5000, /* for half a request, for a connection, and from SIGHUP to SIGKILL */
    NOT_STARTED = 125,  /* the porter itself could not begin; 126 and 127 are the command's, as shells have it */
    NOT_RUNNABLE = 126,
    NOT_FOUND = 127,
};

/* porter.c */
int64_t now_ms(void);
int exit_code(int wait_status); /* death by signal n is 128 + n */
void rest_if_full(int why);     /* out of descriptors: accept nobody for a moment, instead of trying without end */

/* child.c: everything between fork and exec */
struct wanted {
    bool terminal;
    uint16_t columns, rows;
    const char *folder;
    char **env, **argv;
    int streams[3]; /* without a terminal */
};
struct started {
    pid_t pid;
    int told;   /* an errno comes here if it cannot be run, nothing if it runs */
    int master; /* of its terminal, or -1 */
};
void remember_open_files(void);                                       /* ours are raised; children get back what we were given */
void begin_child(void);                                               /* its own session, with signals as a shell would give them */
bool start_wanted(const struct wanted *wanted, struct started *made); /* false: see errno */
pid_t start_batch(char **argv, const char *log, const char *folder);

/* once.c: the session's command begins once, however often its container is started */
bool begin_once(const char *path, bool may_again); /* does not return if it began before and may not; false: see errno */
void ended_once(int code);

/* relay.c: a port on the session's loopback, joined to a UNIX socket */
int relay_listen(const char *port_and_path);
void relay_accept(void);
int relay_watched(void); /* what to poll, or -1 */
void relay_reaped(pid_t pid);
void relay_close(void);

/* door.c: requests from outside */
enum { SLOTS_A_CONNECTION = 2, DOOR_SLOTS = 1 + SLOTS_A_CONNECTION * MOST_CONNECTIONS };
bool door_open(void);
size_t door_watch(struct pollfd *slots, int64_t *until_ms); /* how many slots; `until_ms` is made sooner if something is due */
void door_heed(const struct pollfd *slots, size_t watched);
void door_reaped(pid_t pid, int wait_status);
bool door_idle(void);
void door_close(void);

/* path.c */
void complete_path(void);

/* request.c: bytes to fields */
struct reader {
    uint8_t *at, *end;
    bool broken; /* once it is, all that is taken is zero or empty */
};
uint32_t take_number(struct reader *from, size_t bytes);
char *take_string(struct reader *from);
char **take_strings(struct reader *from); /* to be freed; ends with NULL */

#endif
