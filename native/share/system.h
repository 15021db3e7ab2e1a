/* The kernel and a few texts, without libc: this library lives in every program of every image, and brings its own. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

long system_call(long number, long a, long b, long c, long d, long e, long f); /* -errno on failure */

int open_file(const char *path, int flags); /* or -errno; always closed by exec */
void close_file(int file);
long read_at(int file, void *into, size_t bytes, uint64_t offset);
void *map_private(size_t bytes);                        /* NULL: there is none */
void *map_shared(int file, size_t bytes);
void unmap(void *at, size_t bytes);
int lock_byte(int file, int64_t byte, bool is_locked);  /* 0, or -errno at once if another has it */
bool is_byte_locked(int file, int64_t byte);            /* by another description than this one */
uint64_t now_us(void);
void rest_us(unsigned microseconds);
int process_number(void);

void lock(uint32_t *word);   /* zero is free: memory that fork wipes is unlocked in the child */
void unlock(uint32_t *word);

bool same_text(const char *a, const char *b);
bool begins_with(const char *text, const char *start);
size_t text_length(const char *text);

#endif
