/* Puts a server at a distance: every byte is passed on, in both directions, so many microseconds after it came.
 *
 * delay TARGET_PORT ONE_WAY_US: listens on a free port of 127.0.0.1 and prints it. Each line on standard input is
 * answered with how often a client had to wait for the server so far (round trips); the end of input ends the program.
 * The delay is the same for all, so what came first is due first: one queue and one timer serve every connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK_BYTES = 64 * 1024, EVENTS = 64 };

struct end {
    int fd;
    int is_client;
    int is_closed; /* No more comes from here. */
    int is_waiting; /* A client that has asked and was not answered yet. */
    struct end *other;
};

struct chunk {
    uint64_t due_ns;
    struct end *from;
    size_t size; /* 0: the end of what comes from there. */
    struct chunk *next;
    char bytes[];
};

static struct end listener, timer, input;
static struct chunk *first, *last;
static unsigned long round_trips;
static uint64_t one_way_ns;
static int poller;
static struct sockaddr_in target = {.sin_family = AF_INET};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void watch(struct end *end) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = end};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, end->fd, &event)) fail("epoll_ctl");
}

static void set_timer(void) {
    struct itimerspec at = {0};
    at.it_value.tv_sec = (time_t)(first->due_ns / 1000000000u);
    at.it_value.tv_nsec = (long)(first->due_ns % 1000000000u);
    timerfd_settime(timer.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void silence_timer(void) {
    uint64_t rung;
    if (read(timer.fd, &rung, sizeof rung) < 0) return; /* It was set anew meanwhile. */
}

static struct end *joined(int fd, int is_client) {
    struct end *end = calloc(1, sizeof *end);
    int yes = 1;
    if (!end) fail("calloc");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    end->fd = fd;
    end->is_client = is_client;
    return end;
}

static void take_client(void) {
    int client_fd = accept(listener.fd, NULL, NULL);
    int server_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (client_fd < 0 || server_fd < 0 || connect(server_fd, (struct sockaddr *)&target, sizeof target)) {
        close(client_fd);
        close(server_fd);
        return;
    }
    struct end *client = joined(client_fd, 1), *server = joined(server_fd, 0);
    client->other = server;
    server->other = client;
    watch(client);
    watch(server);
}

static void take_bytes(struct end *from) {
    struct chunk *chunk = malloc(sizeof *chunk + CHUNK_BYTES);
    if (!chunk) fail("malloc");
    ssize_t got = recv(from->fd, chunk->bytes, CHUNK_BYTES, 0);
    chunk->size = got > 0 ? (size_t)got : 0;
    chunk->due_ns = now_ns() + one_way_ns;
    chunk->from = from;
    chunk->next = NULL;
    if (got <= 0) {
        epoll_ctl(poller, EPOLL_CTL_DEL, from->fd, NULL);
    } else if (!from->is_client) {
        from->other->is_waiting = 0;
    } else if (!from->is_waiting) {
        from->is_waiting = 1;
        round_trips++;
    }
    if (first) {
        last = last->next = chunk;
    } else {
        first = last = chunk;
        set_timer();
    }
}

static void pass_on(struct chunk *chunk) {
    struct end *from = chunk->from, *to = from->other;
    for (size_t sent = 0; sent < chunk->size;) {
        ssize_t part = send(to->fd, chunk->bytes + sent, chunk->size - sent, MSG_NOSIGNAL);
        if (part <= 0) break;
        sent += (size_t)part;
    }
    if (chunk->size) return;
    shutdown(to->fd, SHUT_WR);
    from->is_closed = 1;
    if (to->is_closed) {
        close(from->fd);
        close(to->fd);
        free(from);
        free(to);
    }
}

static void pass_on_what_is_due(void) {
    while (first && first->due_ns <= now_ns()) {
        struct chunk *chunk = first;
        first = chunk->next;
        pass_on(chunk);
        free(chunk);
    }
    if (first) set_timer();
}

static void answer(void) {
    char line[256];
    if (read(input.fd, line, sizeof line) <= 0) exit(0);
    printf("%lu\n", round_trips);
}

static void listen_anywhere(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    listener.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener.fd, (struct sockaddr *)&here, size) || listen(listener.fd, 128)) fail("listen");
    getsockname(listener.fd, (struct sockaddr *)&here, &size);
    printf("%d\n", ntohs(here.sin_port));
}

int main(int count, char **arguments) {
    struct epoll_event events[EVENTS];
    if (count != 3) return 2;
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target.sin_port = htons((uint16_t)atoi(arguments[1]));
    one_way_ns = strtoull(arguments[2], NULL, 10) * 1000u;
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_TIMERSLACK, 1UL);
    poller = epoll_create1(0);
    timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    listen_anywhere();
    watch(&listener);
    watch(&timer);
    watch(&input);
    for (;;) {
        int ready = epoll_wait(poller, events, EVENTS, -1);
        for (int at = 0; at < ready; at++) {
            struct end *end = events[at].data.ptr;
            if (end == &listener) take_client();
            else if (end == &input) answer();
            else if (end == &timer) silence_timer();
            else take_bytes(end);
        }
        pass_on_what_is_due();
    }
}
