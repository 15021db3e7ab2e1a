/* The porter: the first process of a session's container. It runs the session's command, or waits; it reaps every orphan, passes
   signals from outside on, and lets the host's processes in at its door (door.c). As number 1 it cannot be killed from inside. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "porter.h"

enum { FIRST_PROCESS = 1, NEVER_MS = 3600 * 1000, REST_MS = 200, TERMINATED = 128 + SIGTERM, OWN_SLOTS = 2 };
static const int PASSED_ON[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct options {
    const char *log, *folder, *relay, *token, *once;
    int64_t idle_ms; /* 0: never */
    char **command;  /* NULL: an interactive session */
};

static pid_t batch;      /* the session's own command, or 0 */
static bool leaving;     /* told to end, without a command of our own: we wait for the others to go */
static int64_t rest_until_ms;

int64_t now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int exit_code(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

void rest_if_full(int why) {
    if (why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS)
        rest_until_ms = now_ms() + REST_MS;
}

static _Noreturn void give_up(const char *what, const char *which) {
    (void)fprintf(stderr, "fairy: the porter could not %s %s: %s\n", what, which, strerror(errno));
    exit(NOT_STARTED);
}

static _Noreturn void usage(void) {
    (void)fputs("usage: porter [--log FILE] [--workdir DIR] [--relay PORT:SOCKET] [--idle-exit SECONDS] [--token FROM:TO] [--once FILE] [-- COMMAND ARGUMENT...]\n", stderr);
    exit(NOT_STARTED);
}

static struct options options_of(int count, char **words) {
    static const struct option known[] = {
        {"log", required_argument, NULL, 'l'},       {"workdir", required_argument, NULL, 'w'}, {"relay", required_argument, NULL, 'r'},
        {"idle-exit", required_argument, NULL, 'i'}, {"token", required_argument, NULL, 't'},   {"once", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    struct options chosen = {0};
    for (int letter; (letter = getopt_long(count, words, "+", known, NULL)) != -1;) {
        char *end = NULL;
        if (letter == 'l')
            chosen.log = optarg;
        else if (letter == 'w')
            chosen.folder = optarg;
        else if (letter == 'r')
            chosen.relay = optarg;
        else if (letter == 't')
            chosen.token = optarg;
        else if (letter == 'o')
            chosen.once = optarg;
        else if (letter == 'i' && (chosen.idle_ms = strtol(optarg, &end, 10) * 1000) > 0 && *end == 0)
            continue;
        else
            usage();
    }
    if (optind < count)
        chosen.command = words + optind;
    return chosen;
}

/* Where an engine can give the session a file only as somebody else's, readable by its group: a copy that is its owner's alone. */
static bool copy_token(const char *from_to) {
    char text[4096], *from = strdup(from_to), *to = from == NULL ? NULL : strchr(from, ':');
    if (to == NULL)
        return errno = EINVAL, false;
    *to++ = 0;
    int source = open(from, O_RDONLY | O_CLOEXEC), copy = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t size = source < 0 || copy < 0 ? -1 : read(source, text, sizeof text);
    bool done = size >= 0 && write(copy, text, (size_t)size) == size;
    (void)close(source);
    (void)close(copy);
    free(from);
    return done;
}

/* So that no descriptor of ours, and none that comes by the door, is ever one of the first three. */
static void fill_standard_streams(void) {
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor < 0)
        give_up("open", "/dev/null");
    (void)close(descriptor);
}

static int watch_signals(void) {
    sigset_t heeded;
    (void)sigemptyset(&heeded);
    (void)sigaddset(&heeded, SIGCHLD);
    for (size_t i = 0; i < sizeof PASSED_ON / sizeof *PASSED_ON; i++)
        (void)sigaddset(&heeded, PASSED_ON[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    int descriptor = sigprocmask(SIG_BLOCK, &heeded, NULL) == 0 ? signalfd(-1, &heeded, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    if (descriptor < 0)
        give_up("watch", "signals");
    return descriptor;
}

static void pass_on(int number) {
    if (batch > 0) {
        if (kill(-batch, number) != 0) /* not yet a group of its own: the child finds the signal waiting */
            (void)kill(batch, number);
    } else if (number == SIGTERM && !leaving) {
        leaving = true;
        door_close();
        relay_close();
        (void)kill(-1, SIGHUP);
        (void)kill(-1, SIGTERM);
        (void)kill(-1, SIGCONT);
    }
}

static void reap(void) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == batch) {
            ended_once(exit_code(status));
            exit(exit_code(status)); /* the kernel ends whatever it left */
        }
        relay_reaped(pid);
        door_reaped(pid, status);
    }
}

static void heed_signals(int signals) {
    struct signalfd_siginfo told;
    while (read(signals, &told, sizeof told) == (ssize_t)sizeof told) {
        /* Of the session's own processes, none may end it by a signal to number 1 (`pkill -u $USER`): outsiders have no number here. */
        if (told.ssi_signo != SIGCHLD && told.ssi_pid == 0)
            pass_on((int)told.ssi_signo);
    }
    reap();
}

static bool nobody_left(void) {
    siginfo_t none;
    return waitid(P_ALL, 0, &none, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

/* An engine far away runs its commands beside us, and not by our door: they are seen by their numbers alone. */
static bool nobody_beside(void) {
    DIR *all = opendir("/proc");
    bool alone = true;
    for (struct dirent *one; all != NULL && alone && (one = readdir(all)) != NULL;)
        alone = !isdigit((unsigned char)*one->d_name) || atoi(one->d_name) == FIRST_PROCESS;
    if (all != NULL)
        (void)closedir(all);
    return alone;
}

static void wait_and_serve(int signals, int64_t idle_ms) {
    static struct pollfd slots[OWN_SLOTS + DOOR_SLOTS];
    int64_t idle_since_ms = now_ms();
    for (;;) {
        if (leaving && nobody_left())
            exit(TERMINATED);
        int64_t now = now_ms(), until_ms = now + NEVER_MS;
        if (!door_idle())
            idle_since_ms = now;
        else if (idle_ms > 0 && now >= idle_since_ms + idle_ms && nobody_beside())
            exit(0);
        else if (idle_ms > 0 && now >= idle_since_ms + idle_ms)
            idle_since_ms = now;
        if (idle_ms > 0 && door_idle())
            until_ms = idle_since_ms + idle_ms;
        slots[0] = (struct pollfd){.fd = signals, .events = POLLIN};
        slots[1] = (struct pollfd){.fd = relay_watched(), .events = POLLIN};
        size_t watched = door_watch(slots + OWN_SLOTS, &until_ms);
        if (now < rest_until_ms) {
            slots[1].fd = slots[OWN_SLOTS].fd = -1;
            until_ms = rest_until_ms < until_ms ? rest_until_ms : until_ms;
        }
        if (poll(slots, OWN_SLOTS + watched, until_ms > now ? (int)(until_ms - now) : 0) < 0)
            continue;
        if (slots[1].revents != 0)
            relay_accept();
        door_heed(slots + OWN_SLOTS, watched);
        if (slots[0].revents != 0)
            heed_signals(signals);
    }
}

int main(int count, char **words) {
    struct options chosen = options_of(count, words);
    if (getpid() != FIRST_PROCESS) { /* it signals everybody it can, which must be the session alone */
        (void)fputs("fairy: the porter runs only as the first process of a container\n", stderr);
        return NOT_STARTED;
    }
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) /* the session's processes have our uid: they must not trace us */
        give_up("shut", "itself");
    fill_standard_streams();
    remember_open_files();
    int signals = watch_signals();
    if (!door_open())
        give_up("open", "its door");
    if (chosen.relay != NULL && relay_listen(chosen.relay) != 0)
        give_up("relay", chosen.relay);
    if (chosen.token != NULL && !copy_token(chosen.token))
        give_up("copy the session's token", chosen.token);
    complete_path();
    if (chosen.once != NULL && !begin_once(chosen.once, chosen.command == NULL))
        give_up("keep that it begins in", chosen.once);
    if (chosen.command != NULL && (batch = start_batch(chosen.command, chosen.log, chosen.folder)) < 0)
        give_up("start the command with its log", chosen.log != NULL ? chosen.log : "on standard output");
    wait_and_serve(signals, chosen.idle_ms);
}
