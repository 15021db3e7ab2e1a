/* The door: requests from outside the session, over an abstract UNIX socket of the session's own network namespace.
   It is bound before anything else runs in here, so nobody can take the name, and there is no path with links to follow.
   Each connection carries one request: u32 length, then a kind and its fields; descriptors come with the first bytes.
     E flags:u8 (1: terminal) columns:u16 rows:u16 folder env:strings argv:strings   [stdin stdout stderr, without a terminal]
     C port:u16        U path          connect to the session's loopback, or to a UNIX socket with the session's own rights
   Answers, with a length too: S pid:i32 [the terminal's master, or the connected socket]; F errno:i32 words; at the end X code:i32.
   Between S and X the host may send G signal:u8, for the command's group. If it hangs up: SIGHUP, and SIGKILL for what does not go. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "porter.h"

enum { MOST_REQUEST_BYTES = 1 << 20, MOST_LATER_BYTES = 16, HEADER_BYTES = 4, WITH_TERMINAL = 1 };
static const char NAME[] = "\0gpufairy-porter";

enum state { FREE, ASKING, CONNECTING, STARTING, RUNNING, HUNG_UP };

struct connection {
    enum state state;
    int peer;         /* -1 once hung up */
    int aside;        /* CONNECTING: the socket; STARTING: where the child tells why it cannot run */
    int master;       /* STARTING: of the child's terminal */
    int64_t until_ms; /* when our patience ends; 0: it does not */
    uint8_t header[HEADER_BYTES], *body;
    size_t length, have; /* `have` counts the header too */
    int given[3], given_count;
    pid_t pid;     /* until it is reaped, so the number is surely its own */
    uint16_t port; /* CONNECTING: to be tried on ::1 as well; 0: not */
};

static int listener = -1;
static struct connection connections[MOST_CONNECTIONS];
static size_t used; /* no connection beyond this one is in use */

bool door_open(void) {
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof NAME - 1;
    memcpy(here.sun_path, NAME, sizeof NAME - 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return listener >= 0 && bind(listener, (struct sockaddr *)&here, size) == 0 && listen(listener, 1024) == 0;
}

void door_close(void) {
    if (listener >= 0)
        (void)close(listener);
    listener = -1;
}

static void drop(int *descriptor) {
    if (*descriptor >= 0)
        (void)close(*descriptor);
    *descriptor = -1;
}

static void drop_request(struct connection *c) {
    for (int i = 0; i < c->given_count; i++)
        drop(&c->given[i]);
    free(c->body);
    c->body = NULL;
    c->given_count = 0;
    c->length = c->have = 0;
}

/* Nothing more is said to the peer. A child that is still there keeps the place until it is reaped. */
static void finish(struct connection *c) {
    drop_request(c);
    drop(&c->peer);
    drop(&c->aside);
    drop(&c->master);
    c->until_ms = 0;
    c->state = c->pid > 0 ? HUNG_UP : FREE;
    while (used > 0 && connections[used - 1].state == FREE)
        used--;
}

static void put_number(uint8_t *to, uint32_t number) {
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(number >> (8 * i));
}

/* Answers are small and few, so a peer whose buffer is full has gone mad: it is not waited for. */
static bool answer(struct connection *c, char kind, int number, const char *words, int descriptor) {
    uint8_t bytes[128];
    size_t size = strlen(words) < 100 ? strlen(words) : 100;
    put_number(bytes, (uint32_t)(5 + size));
    bytes[4] = (uint8_t)kind;
    put_number(bytes + 5, (uint32_t)number);
    memcpy(bytes + 9, words, size);
    struct iovec piece = {.iov_base = bytes, .iov_len = 9 + size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    if (descriptor >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    return sendmsg(c->peer, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)piece.iov_len;
}

static void fail(struct connection *c, int why) {
    (void)answer(c, 'F', why, strerror(why), -1);
    finish(c);
}

static void hang_up(struct connection *c) {
    if (c->state == RUNNING) {
        (void)kill(-c->pid, SIGHUP);
        (void)kill(-c->pid, SIGCONT); /* a stopped one would never hear it */
    } else if (c->state == STARTING) {
        (void)kill(c->pid, SIGKILL);
    }
    finish(c);
    if (c->state == HUNG_UP)
        c->until_ms = now_ms() + PATIENCE_MS;
}

/* ---- E: a command */

/* The child has told us, by its errno or by silence, whether it runs. */
static void heed_told(struct connection *c) {
    int why = 0;
    ssize_t got = read(c->aside, &why, sizeof why);
    if (got < 0)
        return;
    if (got > 0) {
        fail(c, why);
        return;
    }
    c->state = RUNNING;
    bool told = answer(c, 'S', c->pid, "", c->master);
    drop(&c->aside);
    drop(&c->master); /* the host's alone now, so that its end is the terminal's end */
    if (!told)
        hang_up(c);
}

static bool all_pairs(char **env) {
    for (; *env != NULL; env++)
        if (strchr(*env, '=') == NULL || **env == '=')
            return false;
    return true;
}

static void serve_command(struct connection *c, struct reader *from) {
    struct wanted wanted = {0};
    struct started made;
    wanted.terminal = (take_number(from, 1) & WITH_TERMINAL) != 0;
    wanted.columns = (uint16_t)take_number(from, 2);
    wanted.rows = (uint16_t)take_number(from, 2);
    wanted.folder = take_string(from);
    wanted.env = take_strings(from);
    wanted.argv = take_strings(from);
    memcpy(wanted.streams, c->given, sizeof wanted.streams);
    bool whole = !from->broken && from->at == from->end && wanted.argv[0] != NULL && all_pairs(wanted.env);
    if (!whole || c->given_count != (wanted.terminal ? 0 : 3)) {
        fail(c, EINVAL);
    } else if (!start_wanted(&wanted, &made)) {
        fail(c, errno);
    } else {
        c->pid = made.pid;
        c->aside = made.told;
        c->master = made.master;
        c->state = STARTING;
        c->until_ms = 0;
        drop_request(c); /* above all the three streams: they are the child's now, and end with it */
    }
    free(wanted.env);
    free(wanted.argv);
}

void door_reaped(pid_t pid, int wait_status) {
    for (size_t i = 0; i < used; i++) {
        struct connection *c = &connections[i];
        if (c->pid != pid)
            continue;
        if (c->state == STARTING)
            heed_told(c);
        c->pid = 0;
        if (c->state == RUNNING)
            (void)answer(c, 'X', exit_code(wait_status), "", -1);
        finish(c);
        return;
    }
}

/* ---- C and U: a connection */

static void connected(struct connection *c) {
    int blocking = fcntl(c->aside, F_GETFL);
    if (blocking < 0 || fcntl(c->aside, F_SETFL, blocking & ~O_NONBLOCK) != 0) {
        fail(c, errno);
        return;
    }
    (void)answer(c, 'S', 0, "", c->aside);
    finish(c);
}

static void connect_to(struct connection *c, const struct sockaddr *there, socklen_t size) {
    c->aside = socket(there->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    c->state = CONNECTING;
    c->until_ms = now_ms() + PATIENCE_MS;
    if (c->aside >= 0 && connect(c->aside, there, size) == 0)
        connected(c);
    else if (c->aside < 0 || errno != EINPROGRESS)
        fail(c, errno);
}

static void connect_to_port(struct connection *c, uint16_t port) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->port = port;
    connect_to(c, (struct sockaddr *)&there, sizeof there);
}

static void connect_to_path(struct connection *c, const char *path) {
    struct sockaddr_un there = {.sun_family = AF_UNIX};
    c->port = 0;
    if (*path == 0 || strlen(path) >= sizeof there.sun_path) {
        fail(c, *path == 0 ? EINVAL : ENAMETOOLONG);
        return;
    }
    memcpy(there.sun_path, path, strlen(path) + 1);
    connect_to(c, (struct sockaddr *)&there, sizeof there);
}

static void heed_connecting(struct connection *c) {
    int why = 0;
    socklen_t size = sizeof why;
    if (getsockopt(c->aside, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
        why = errno;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(c->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (why == 0) {
        connected(c);
    } else if (why == ECONNREFUSED && c->port != 0) {
        drop(&c->aside);
        c->port = 0;
        connect_to(c, (struct sockaddr *)&six, sizeof six);
    } else {
        fail(c, why);
    }
}

/* ---- requests */

static void serve(struct connection *c) {
    struct reader from = {.at = c->body, .end = c->body + c->length};
    char kind = (char)take_number(&from, 1);
    if (c->state == RUNNING) {
        uint32_t number = take_number(&from, 1);
        if (kind == 'G' && !from.broken && number > 0 && number < NSIG)
            (void)kill(-c->pid, (int)number);
        drop_request(c);
        return;
    }
    uint16_t port = kind == 'C' ? (uint16_t)take_number(&from, 2) : 0;
    const char *path = kind == 'U' ? take_string(&from) : "";
    if (kind == 'E')
        serve_command(c, &from);
    else if (kind == 'C' && !from.broken && port > 0)
        connect_to_port(c, port);
    else if (kind == 'U' && !from.broken)
        connect_to_path(c, path);
    else
        fail(c, EINVAL);
    if (c->state == CONNECTING)
        drop_request(c);
}

/* False: more came than a request may have, and was closed. */
static bool keep_given(struct connection *c, struct msghdr *message) {
    bool fine = (message->msg_flags & MSG_CTRUNC) == 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(head) + i * sizeof descriptor, sizeof descriptor);
            if (c->given_count < 3) {
                c->given[c->given_count++] = descriptor;
            } else {
                (void)close(descriptor);
                fine = false;
            }
        }
    }
    return fine;
}

static ssize_t receive(struct connection *c) {
    uint8_t *to = c->have < HEADER_BYTES ? c->header + c->have : c->body + (c->have - HEADER_BYTES);
    size_t room = c->have < HEADER_BYTES ? HEADER_BYTES - c->have : c->length + HEADER_BYTES - c->have;
    struct iovec piece = {.iov_base = to, .iov_len = room};
    union {
        char room[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    ssize_t got = recvmsg(c->peer, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got >= 0 && !keep_given(c, &message))
        return 0;
    return got;
}

static bool begin_body(struct connection *c) {
    struct reader from = {.at = c->header, .end = c->header + HEADER_BYTES};
    c->length = take_number(&from, HEADER_BYTES);
    if (c->length == 0 || c->length > (c->state == RUNNING ? MOST_LATER_BYTES : MOST_REQUEST_BYTES))
        return false;
    c->body = malloc(c->length);
    return c->body != NULL;
}

static void heed_peer(struct connection *c) {
    while (c->state == ASKING || c->state == RUNNING) {
        ssize_t got = receive(c);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            hang_up(c);
            return;
        }
        c->have += (size_t)got;
        if (c->have == HEADER_BYTES && !begin_body(c)) {
            hang_up(c);
            return;
        }
        if (c->have > HEADER_BYTES && c->have == HEADER_BYTES + c->length)
            serve(c);
    }
    if (c->state == STARTING || c->state == CONNECTING) { /* it has nothing to say now but goodbye */
        char byte;
        if (recv(c->peer, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR))
            hang_up(c);
    }
}

/* A process of the session itself has a number in here. One outside, which the host alone can bring in, has none. */
static bool from_outside(int peer) {
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid == 0;
}

static struct connection *free_place(void) {
    for (size_t i = 0; i < used; i++)
        if (connections[i].state == FREE)
            return &connections[i];
    return used < MOST_CONNECTIONS ? &connections[used++] : NULL;
}

static void accept_one(void) {
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer < 0) {
        rest_if_full(errno);
        return;
    }
    struct connection *c = from_outside(peer) ? free_place() : NULL;
    if (c == NULL) {
        (void)close(peer);
        return;
    }
    *c = (struct connection){.state = ASKING, .peer = peer, .aside = -1, .master = -1, .until_ms = now_ms() + PATIENCE_MS};
}

/* ---- the loop's side */

static void lose_patience(struct connection *c) {
    if (c->state == ASKING)
        finish(c);
    else if (c->state == CONNECTING)
        fail(c, ETIMEDOUT);
    else if (c->state == HUNG_UP)
        (void)kill(c->pid, SIGKILL);
    c->until_ms = 0;
}

bool door_idle(void) {
    for (size_t i = 0; i < used; i++)
        if (connections[i].peer >= 0 && connections[i].state != FREE)
            return false;
    return true;
}

size_t door_watch(struct pollfd *slots, int64_t *until_ms) {
    slots[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (size_t i = 0; i < used; i++) {
        const struct connection *c = &connections[i];
        struct pollfd *slot = &slots[1 + SLOTS_A_CONNECTION * i];
        bool there = c->state != FREE && c->state != HUNG_UP;
        slot[0] = (struct pollfd){.fd = there ? c->peer : -1, .events = POLLIN};
        slot[1] = (struct pollfd){.fd = there ? c->aside : -1, .events = c->state == CONNECTING ? POLLOUT : POLLIN};
        if (c->state != FREE && c->until_ms != 0 && c->until_ms < *until_ms)
            *until_ms = c->until_ms;
    }
    return 1 + SLOTS_A_CONNECTION * used;
}

void door_heed(const struct pollfd *slots, size_t watched) {
    int64_t now = now_ms();
    for (size_t i = 0; 1 + SLOTS_A_CONNECTION * i < watched; i++) {
        struct connection *c = &connections[i];
        const struct pollfd *slot = &slots[1 + SLOTS_A_CONNECTION * i];
        if (slot[1].revents != 0 && c->state == STARTING)
            heed_told(c);
        else if (slot[1].revents != 0 && c->state == CONNECTING)
            heed_connecting(c);
        if (slot[0].revents != 0 && c->peer >= 0)
            heed_peer(c);
        if (c->state != FREE && c->until_ms != 0 && c->until_ms <= now)
            lose_patience(c);
    }
    if (slots[0].revents != 0)
        accept_one();
}
