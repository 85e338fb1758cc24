// Makes one call of the C library fail, in a program that preloads this library.
//
// FAIL_CALLS=threads counts the threads that are started; FAIL_CALLS=files counts the calls that create, write, synchronize or
// rename regular files. Call number FAIL_AT fails: no thread can be started, or the disk is full. With FAIL_ON=1 all later calls fail
// too. A file named FAIL_MARK is made when the call fails. FAIL_CALLS=stalled counts the writes to regular files; number FAIL_AT does
// not return. FAIL_CALLS=synced counts the files that are synchronized, and number FAIL_AT fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static int fails(const char *kind) {
    const char *counted = getenv("FAIL_CALLS"), *at = getenv("FAIL_AT"), *mark = getenv("FAIL_MARK");
    if (!counted || !at || !mark || strcmp(counted, kind) != 0) return 0;
    long number = atomic_fetch_add(&calls, 1) + 1, first = atol(at);
    if (number != first && !(number > first && getenv("FAIL_ON"))) return 0;
    // Not through the functions below, which would count the call.
    int file = syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (file >= 0) syscall(SYS_close, file);
    return 1;
}

static int fails_for(int file) {
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !fails("files")) return 0;
    errno = ENOSPC;
    return 1;
}

static void stall_for(int file) {
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !fails("stalled")) return;
    for (;;) pause();
}

// The definition of a function that this library would hide.
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
    return fails("threads") ? EAGAIN : NEXT(pthread_create)(thread, attributes, work, argument);
}

ssize_t write(int file, const void *bytes, size_t count) {
    stall_for(file);
    return fails_for(file) ? -1 : NEXT(write)(file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return fails_for(file) ? -1 : NEXT(writev)(file, parts, count);
}

int fsync(int file) {
    struct stat status;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && fails("synced")) {
        errno = EIO;
        return -1;
    }
    return fails_for(file) ? -1 : NEXT(fsync)(file);
}

int fdatasync(int file) {
    return fails_for(file) ? -1 : NEXT(fdatasync)(file);
}

int rename(const char *from, const char *to) {
    if (!fails("files")) return NEXT(rename)(from, to);
    errno = ENOSPC;
    return -1;
}

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
        if (fails("files")) {
            errno = ENOSPC;
            return -1;
        }
    }
    return NEXT(open64)(path, flags, mode);
}
