/* Faults of the process with the models, and of NVIDIA's library, at a moment that a file tells.

   Loaded into every program below a search by LD_PRELOAD. A file in SOAK_FAULTS names the fault, and
   is removed by the process that has it. Only messages of the process with the models are concerned:
   writes to a socket. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_models_process(void) {
    static int known = -1;
    if (known < 0) {
        char words[4096];
        int file = open("/proc/self/cmdline", O_RDONLY);
        ssize_t n = read(file, words, sizeof words - 1);
        close(file);
        known = 0;
        for (ssize_t at = 0; at < n; at += strlen(words + at) + 1) {
            words[n] = 0;
            if (strcmp(words + at, "spectui.engine.child") == 0) known = 1;
        }
    }
    return known;
}

static int has_fault(const char *name) {
    const char *folder = getenv("SOAK_FAULTS");
    char path[4096];
    if (folder == NULL) return 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return unlink(path) == 0;
}

ssize_t write(int fd, const void *data, size_t n) {
    static ssize_t (*real)(int, const void *, size_t);
    if (real == NULL) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    struct stat about;
    if (is_models_process() && fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode)) {
        if (has_fault("waits")) for (;;) pause();
        if (has_fault("truncated")) {
            real(fd, data, n / 2);
            _exit(1);
        }
        if (has_fault("half")) {
            real(fd, data, n / 2);
            for (;;) pause();
        }
        if (has_fault("garbage")) {
            char *other = malloc(n);
            memcpy(other, data, n);
            /* Behind the length, so that it arrives as one message. */
            for (size_t at = n > 4 ? 4 : 0; at < n; at++) other[at] ^= 0x5a;
            ssize_t done = real(fd, other, n);
            free(other);
            return done;
        }
    }
    return real(fd, data, n);
}
