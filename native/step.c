/* The step into a container whose engine is far away (Kubernetes), and runs one command there at a time, with no more than its arguments:

     step [--tag TAG] [--workdir DIR] [--env NAME=VALUE]... -- COMMAND ARGUMENT...    becomes that command
     step --tell TAG SIGNAL          sends a signal to the process group of the command with that tag, if it still runs
     step --join PORT|/PATH          joins its own standard streams to a port of the loopback, or to a UNIX socket; says "+" first */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "porter.h"

static const char TAG[] = "FAIRY_STEP=";

static _Noreturn void usage(void) {
    (void)fputs("usage: step [--tag TAG] [--workdir DIR] [--env NAME=VALUE]... -- COMMAND... | --tell TAG SIGNAL | --join PORT|/PATH\n", stderr);
    exit(NOT_STARTED);
}

/* A command that the engine started has no parent in here. What it started itself and left behind has one, and is left alone. */
static bool came_from_outside(const char *pid) {
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    size_t size = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    if (file != NULL)
        (void)fclose(file);
    text[size] = 0;
    const char *end = strrchr(text, ')'); /* a command's name may hold anything */
    long parent = -1;
    return end != NULL && sscanf(end + 1, " %*c %ld", &parent) == 1 && parent == 0;
}

static bool has_tag(const char *pid, const char *tag) {
    char path[64], *pair = NULL;
    size_t room = 0;
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && getdelim(&pair, &room, 0, file) > 0)
        found = strncmp(pair, TAG, sizeof TAG - 1) == 0 && strcmp(pair + sizeof TAG - 1, tag) == 0;
    if (file != NULL)
        (void)fclose(file);
    free(pair);
    return found;
}

static int tell(const char *tag, int number) {
    DIR *all = opendir("/proc");
    for (struct dirent *one; all != NULL && (one = readdir(all)) != NULL;) {
        pid_t pid = isdigit((unsigned char)*one->d_name) ? (pid_t)atoi(one->d_name) : 0;
        if (pid <= 1 || !came_from_outside(one->d_name) || !has_tag(one->d_name, tag))
            continue;
        if (kill(-pid, number) != 0) /* it leads no group */
            (void)kill(pid, number);
    }
    if (all != NULL)
        (void)closedir(all);
    return 0;
}

static int connected(const char *where) {
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 port6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (*where == '/') {
        if (strlen(where) >= sizeof path.sun_path)
            return errno = ENAMETOOLONG, -1;
        memcpy(path.sun_path, where, strlen(where) + 1);
        int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        return connect(made, (struct sockaddr *)&path, sizeof path) == 0 ? made : -1;
    }
    port.sin_port = port6.sin6_port = htons((uint16_t)atoi(where));
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(made, (struct sockaddr *)&port, sizeof port) == 0)
        return made;
    int why = errno;
    made = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(made, (struct sockaddr *)&port6, sizeof port6) == 0)
        return made;
    errno = why;
    return -1;
}

static bool write_all(int to, const char *from, ssize_t size) {
    for (ssize_t sent; size > 0; from += sent, size -= sent)
        if ((sent = write(to, from, (size_t)size)) < 0)
            return false;
    return true;
}

/* One process for each way: whoever is full keeps nobody else waiting. */
static void carry(int from, int to) {
    static char held[1 << 16];
    for (ssize_t got; (got = read(from, held, sizeof held)) > 0;)
        if (!write_all(to, held, got))
            return;
}

static int join(const char *where) {
    int far = connected(where);
    if (far < 0) {
        (void)fprintf(stderr, "%s", strerror(errno));
        return NOT_STARTED;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    pid_t up = write_all(STDOUT_FILENO, "+", 1) ? fork() : -1;
    if (up < 0)
        return NOT_STARTED;
    if (up == 0) {
        carry(STDIN_FILENO, far);
        (void)shutdown(far, SHUT_WR);
        _exit(0);
    }
    carry(far, STDOUT_FILENO);
    (void)kill(up, SIGKILL); /* it waits for words that nobody will read */
    return 0;
}

static int become(char **argv, const char *folder) {
    complete_path();
    if (folder != NULL && chdir(folder) != 0 && chdir("/") != 0)
        return NOT_RUNNABLE;
    (void)setsid(); /* fails if it leads a group already, as it should */
    execvp(argv[0], argv);
    int why = errno;
    (void)fprintf(stderr, "fairy: %s cannot be run in the session: %s\n", argv[0], strerror(why));
    return why == ENOENT ? NOT_FOUND : NOT_RUNNABLE;
}

int main(int count, char **words) {
    static const struct option known[] = {
        {"tag", required_argument, NULL, 't'},  {"workdir", required_argument, NULL, 'w'}, {"env", required_argument, NULL, 'e'},
        {"tell", required_argument, NULL, 's'}, {"join", required_argument, NULL, 'j'},    {NULL, 0, NULL, 0},
    };
    const char *folder = NULL, *told = NULL;
    for (int letter; (letter = getopt_long(count, words, "+", known, NULL)) != -1;) {
        if (letter == 'j')
            return join(optarg);
        if (letter == 't' && setenv("FAIRY_STEP", optarg, 1) == 0)
            continue;
        if (letter == 'e' && strchr(optarg, '=') != NULL && putenv(optarg) == 0)
            continue;
        if (letter == 'w')
            folder = optarg;
        else if (letter == 's')
            told = optarg;
        else
            usage();
    }
    if (optind >= count)
        usage();
    return told != NULL ? tell(told, atoi(words[optind])) : become(words + optind, folder);
}
