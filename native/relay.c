/* The relay: connections to a port on the session's loopback are joined to a UNIX socket, each by a child of its own.
   That socket is how a session reaches the server without any network path to the machine. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "porter.h"

static int listener = -1;
static struct sockaddr_un target = {.sun_family = AF_UNIX};
static pid_t joined[MOST_RELAYED];

int relay_listen(const char *port_and_path) {
    char *path = NULL;
    unsigned long port = strtoul(port_and_path, &path, 10);
    if (port == 0 || port > UINT16_MAX || *path != ':' || path[1] != '/' || strlen(path + 1) >= sizeof target.sun_path) {
        errno = EINVAL;
        return -1;
    }
    memcpy(target.sun_path, path + 1, strlen(path + 1) + 1);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, MOST_RELAYED) != 0)
        return -1;
    return 0;
}

static pid_t *place_of(pid_t pid) {
    for (size_t i = 0; i < MOST_RELAYED; i++)
        if (joined[i] == pid)
            return &joined[i];
    return NULL;
}

int relay_watched(void) {
    return place_of(0) != NULL ? listener : -1; /* when all are taken, the others wait in the queue */
}

void relay_reaped(pid_t pid) {
    pid_t *place = place_of(pid);
    if (place != NULL)
        *place = 0;
}

void relay_close(void) {
    if (listener >= 0)
        (void)close(listener);
    listener = -1;
}

/* What one side sent, on its way to the other. */
struct flow {
    int from, to;
    size_t begin, end;
    bool over;
    char held[1 << 16];
};

static bool flow_on(struct flow *flow) {
    if (flow->begin == flow->end) {
        ssize_t got = recv(flow->from, flow->held, sizeof flow->held, MSG_DONTWAIT);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR;
        flow->begin = 0;
        flow->end = (size_t)got;
        if (got == 0) {
            flow->over = true;
            return shutdown(flow->to, SHUT_WR) == 0;
        }
    }
    ssize_t sent = send(flow->to, flow->held + flow->begin, flow->end - flow->begin, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    flow->begin += (size_t)sent;
    return true;
}

static struct pollfd wish(const struct flow *flow) {
    bool held = flow->begin < flow->end;
    return (struct pollfd){.fd = flow->over ? -1 : held ? flow->to : flow->from, .events = held ? POLLOUT : POLLIN};
}

/* Else a peer of ours that we have closed would not see its end as long as this child lives. */
static void close_all_but(int kept) {
    bool closed = kept == 3 || syscall(SYS_close_range, 3U, (unsigned)kept - 1, 0U) == 0;
    if (closed && syscall(SYS_close_range, (unsigned)kept + 1, ~0U, 0U) == 0)
        return;
    for (int descriptor = 3; descriptor < 3 * MOST_CONNECTIONS; descriptor++) /* a kernel before 5.9 */
        if (descriptor != kept)
            (void)close(descriptor);
}

static _Noreturn void join(int near) {
    static struct flow up, down;
    begin_child();
    close_all_but(near);
    int far = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (far < 0 || connect(far, (struct sockaddr *)&target, sizeof target) != 0)
        _exit(1);
    up.from = down.to = near;
    up.to = down.from = far;
    while (!up.over || !down.over) {
        struct pollfd slots[2] = {wish(&up), wish(&down)};
        if (poll(slots, 2, -1) < 0)
            _exit(1);
        if ((slots[0].revents != 0 && !flow_on(&up)) || (slots[1].revents != 0 && !flow_on(&down)))
            _exit(0);
    }
    _exit(0);
}

void relay_accept(void) {
    int near = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    pid_t *place = place_of(0);
    if (near < 0) {
        rest_if_full(errno);
        return;
    }
    pid_t pid = place == NULL ? -1 : fork();
    if (pid == 0)
        join(near);
    if (pid > 0)
        *place = pid;
    (void)close(near);
}
