/* A stand-in for libnvidia-ml.so.1: the part of NVML that spectui asks, answered from a table.
 *
 * Tests load it, fill `stub_gpus`, and tell by `stub_rule` which function fails, how long it takes,
 * or that it hangs. tests/support/nvml.py mirrors the structures.
 */

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_GPUS 8
#define MAX_RULES 256
#define ANY_GPU (-1)

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
};
enum { CLOCK_MEMORY = 2 };

typedef struct {
    char name[96];
    char uuid[96];
    unsigned long long memory_total_bytes;
    unsigned long long memory_used_bytes;
    unsigned long long process_bytes;
    unsigned int pid; /* of the one process; 0 for none */
    unsigned int received_kib_per_s;
    unsigned int sent_kib_per_s;
    unsigned int utilisation_percent;
    unsigned int power_mw;
    unsigned int temperature_c;
    unsigned int clock_mhz;
    unsigned int generation;
    unsigned int width;
    unsigned int memory_clock_mhz;
    unsigned int memory_bits;
    unsigned int other_pid; /* of a process that has samples, and is in no list */
    unsigned int own_percent, other_percent;
    unsigned long long sampled_us;
    unsigned long long throttle_reasons;
    char bus_id[32];
} Gpu;

/* What a function does instead of answering at once. */
typedef struct {
    char function[64];
    int gpu;
    int code;
    long long delay_ms;
    int hangs;
    int n_calls;
} Rule;

typedef struct {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
} Process;

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    char legacy_id[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char id[32];
} PciInfo;

typedef struct {
    unsigned int pid;
    unsigned long long time_us;
    unsigned int sm_percent, memory_percent, encoder_percent, decoder_percent;
} Sample;

EXPORT Gpu stub_gpus[MAX_GPUS];
EXPORT int stub_n_gpus;
EXPORT char stub_driver[80];

static Rule rules[MAX_RULES];
static int n_rules;
static int n_sessions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* With the lock held. */
static Rule *rule_of(const char *function, int gpu) {
    for (int i = 0; i < n_rules; i++) {
        if (rules[i].gpu == gpu && strcmp(rules[i].function, function) == 0) {
            return &rules[i];
        }
    }
    if (n_rules == MAX_RULES) {
        return NULL;
    }
    Rule *rule = &rules[n_rules++];
    memset(rule, 0, sizeof *rule);
    snprintf(rule->function, sizeof rule->function, "%s", function);
    rule->gpu = gpu;
    return rule;
}

static void wait_ms(long long ms) {
    struct timespec pause = {ms / 1000, (ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

/* Counts the call and returns the code that the rules have for it. */
static int enter(const char *function, int gpu) {
    pthread_mutex_lock(&lock);
    Rule *mine = rule_of(function, gpu);
    Rule *common = rule_of(function, ANY_GPU);
    Rule *all = rule_of("*", gpu);
    mine->n_calls++;
    int code = mine->code ? mine->code : common->code ? common->code : all->code;
    long long delay_ms = mine->delay_ms ? mine->delay_ms : common->delay_ms;
    pthread_mutex_unlock(&lock);
    wait_ms(delay_ms);
    while (*(volatile int *)&mine->hangs) {
        wait_ms(1);
    }
    return code;
}

EXPORT void stub_reset(void) {
    pthread_mutex_lock(&lock);
    n_rules = 0;
    n_sessions = 0;
    stub_n_gpus = 0;
    memset(rules, 0, sizeof rules);
    memset(stub_gpus, 0, sizeof stub_gpus);
    memset(stub_driver, 0, sizeof stub_driver);
    pthread_mutex_unlock(&lock);
}

/* `gpu` is an index, or ANY_GPU; the function "*" is every function of that GPU. */
EXPORT void stub_rule(const char *function, int gpu, int code, long long delay_ms, int hangs) {
    pthread_mutex_lock(&lock);
    Rule *rule = rule_of(function, gpu);
    rule->code = code;
    rule->delay_ms = delay_ms;
    rule->hangs = hangs;
    pthread_mutex_unlock(&lock);
}

EXPORT int stub_calls(const char *function, int gpu) {
    pthread_mutex_lock(&lock);
    int n_calls = rule_of(function, gpu)->n_calls;
    pthread_mutex_unlock(&lock);
    return n_calls;
}

EXPORT int stub_sessions(void) { return n_sessions; }

static int index_of(const Gpu *gpu) { return (int)(gpu - stub_gpus); }

static int check(const char *function, const Gpu *gpu) {
    if (n_sessions == 0) {
        return UNINITIALIZED;
    }
    return enter(function, index_of(gpu));
}

EXPORT int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    int code = enter("nvmlInit", ANY_GPU);
    n_sessions += code == SUCCESS;
    return code;
}

EXPORT int nvmlShutdown(void) {
    if (n_sessions == 0) {
        return UNINITIALIZED;
    }
    n_sessions--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "stand-in error %d", code);
    return text;
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned int size) {
    snprintf(text, size, "%s", stub_driver);
    int code = enter("nvmlSystemGetDriverVersion", ANY_GPU);
    return code == SUCCESS && stub_driver[0] == 0 ? NOT_SUPPORTED : code;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = (unsigned int)stub_n_gpus;
    return enter("nvmlDeviceGetCount", ANY_GPU);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Gpu **gpu) {
    if ((int)index >= stub_n_gpus) {
        return INVALID_ARGUMENT;
    }
    *gpu = &stub_gpus[index];
    return check("nvmlDeviceGetHandleByIndex", *gpu);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **gpu) {
    for (int i = 0; i < stub_n_gpus; i++) {
        if (strcmp(stub_gpus[i].uuid, uuid) == 0) {
            *gpu = &stub_gpus[i];
            return check("nvmlDeviceGetHandleByUUID", *gpu);
        }
    }
    return NOT_FOUND;
}

#define TEXT(function, member)                                                  \
    EXPORT int function(Gpu *gpu, char *text, unsigned int size) {              \
        snprintf(text, size, "%s", gpu->member);                                \
        return check(#function, gpu);                                           \
    }
#define NUMBER(function, member)                                                \
    EXPORT int function(Gpu *gpu, unsigned int *value) {                        \
        *value = gpu->member;                                                   \
        return check(#function, gpu);                                           \
    }
#define NUMBER_OF_KIND(function, member)                                        \
    EXPORT int function(Gpu *gpu, unsigned int kind, unsigned int *value) {     \
        (void)kind;                                                             \
        *value = gpu->member;                                                   \
        return check(#function, gpu);                                           \
    }

TEXT(nvmlDeviceGetName, name)
TEXT(nvmlDeviceGetUUID, uuid)
NUMBER(nvmlDeviceGetPowerUsage, power_mw)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, generation)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, width)
NUMBER_OF_KIND(nvmlDeviceGetTemperature, temperature_c)
NUMBER_OF_KIND(nvmlDeviceGetMaxClockInfo, memory_clock_mhz)
NUMBER(nvmlDeviceGetMemoryBusWidth, memory_bits)

EXPORT int nvmlDeviceGetPcieThroughput(Gpu *gpu, unsigned int direction, unsigned int *value) {
    *value = direction == 0 ? gpu->sent_kib_per_s : gpu->received_kib_per_s;
    return check("nvmlDeviceGetPcieThroughput", gpu);
}

EXPORT int nvmlDeviceGetClockInfo(Gpu *gpu, unsigned int kind, unsigned int *value) {
    *value = kind == CLOCK_MEMORY ? gpu->memory_clock_mhz : gpu->clock_mhz;
    return check("nvmlDeviceGetClockInfo", gpu);
}

EXPORT int nvmlDeviceGetPciInfo_v3(Gpu *gpu, PciInfo *info) {
    memset(info, 0, sizeof *info);
    snprintf(info->id, sizeof info->id, "%s", gpu->bus_id);
    return check("nvmlDeviceGetPciInfo", gpu);
}

EXPORT int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory) {
    memory->total = gpu->memory_total_bytes;
    memory->used = gpu->memory_used_bytes;
    memory->free = gpu->memory_total_bytes - gpu->memory_used_bytes;
    return check("nvmlDeviceGetMemoryInfo", gpu);
}

EXPORT int nvmlDeviceGetUtilizationRates(Gpu *gpu, unsigned int *gpu_and_memory) {
    gpu_and_memory[0] = gpu->utilisation_percent;
    gpu_and_memory[1] = 0;
    return check("nvmlDeviceGetUtilizationRates", gpu);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(
    Gpu *gpu, unsigned int *count, Process *processes) {
    unsigned int capacity = *count;
    *count = gpu->pid != 0;
    int code = check("nvmlDeviceGetComputeRunningProcesses", gpu);
    if (code == SUCCESS && *count > capacity) {
        return INSUFFICIENT_SIZE;
    }
    if (code == SUCCESS && *count == 1) {
        memset(processes, 0, sizeof *processes);
        processes[0].pid = gpu->pid;
        processes[0].used_bytes = gpu->process_bytes;
    }
    return code;
}

/* Samples of `pid` and of `other_pid`, where they use the GPU at all. */
EXPORT int nvmlDeviceGetProcessUtilization(
    Gpu *gpu, Sample *samples, unsigned int *count, unsigned long long since_us) {
    unsigned int capacity = *count, n = 0;
    unsigned int pids[] = {gpu->pid, gpu->other_pid};
    unsigned int percents[] = {gpu->own_percent, gpu->other_percent};
    int code = check("nvmlDeviceGetProcessUtilization", gpu);
    if (code != SUCCESS) {
        return code;
    }
    for (int i = 0; i < 2; i++) {
        n += pids[i] != 0 && gpu->sampled_us > since_us;
    }
    *count = n;
    if (n == 0) {
        return NOT_FOUND;
    }
    if (n > capacity || samples == NULL) {
        return INSUFFICIENT_SIZE;
    }
    n = 0;
    for (int i = 0; i < 2; i++) {
        if (pids[i] != 0) {
            memset(&samples[n], 0, sizeof samples[n]);
            samples[n].pid = pids[i];
            samples[n].time_us = gpu->sampled_us;
            samples[n++].sm_percent = percents[i];
        }
    }
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu *gpu, unsigned long long *reasons) {
    *reasons = gpu->throttle_reasons;
    return check("nvmlDeviceGetCurrentClocksThrottleReasons", gpu);
}

/* One GPU is there from the start, for programs that only load the library. */
__attribute__((constructor)) static void begin(void) {
    stub_n_gpus = 1;
    snprintf(stub_gpus[0].name, sizeof stub_gpus[0].name, "Stand-in GPU");
    snprintf(stub_gpus[0].uuid, sizeof stub_gpus[0].uuid, "GPU-stand-in");
    stub_gpus[0].memory_total_bytes = 24ULL << 30;
    stub_gpus[0].generation = 4;
    stub_gpus[0].width = 16;
}
