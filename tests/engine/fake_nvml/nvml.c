/* A small libnvidia-ml.so.1: two cards that answer as FAKE_NVML says.
 *
 * FAKE_NVML is one of: ok, missing_symbol (built without the newer functions), lost (card 0
 * falls off the bus after 5 power readings), slow (power takes FAKE_NVML_MS), hang (power never
 * returns after 3 readings), garbage (process sizes and pids of a mismatched struct), idle
 * (process utilisation succeeds with no rows), mismatch (library and module differ), chaos
 * (random codes and delays from FAKE_NVML_SEED).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7,
    LOST = 15, MISMATCH = 18
};

typedef struct { int index; int power_reads; } device;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { uint64_t total, free, used; } memory_v1;
typedef struct { unsigned version; uint64_t total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; uint64_t used; unsigned gpu_instance, compute_instance; } process;
typedef struct {
    char legacy[16];
    unsigned domain, bus, dev, device_id, subsystem_id;
    char id[32];
} pci;
typedef struct { unsigned version, sensor; int temperature; } temperature_v1;
typedef struct { unsigned pid; uint64_t stamp; unsigned sm, mem, enc, dec; } usage;

static device cards[2] = {{0, 0}, {1, 0}};
static int users = 0;
static uint64_t state = 0;

static int is(const char *name) {
    const char *kind = getenv("FAKE_NVML");
    return kind != NULL && strcmp(kind, name) == 0;
}

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text == NULL ? otherwise : atoi(text);
}

static unsigned chance(void) {
    if (state == 0) state = 88172645463325252ULL + (uint64_t)number("FAKE_NVML_SEED", 0);
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 33);
}

/* The code every call begins with: lost cards, and random failures under chaos. */
static int enter(device *card) {
    static const int codes[] = {1, 2, 3, 4, 6, 10, 13, 15, 16, 17, 20, 21, 25, 26, 27, 28, 999};
    if (users == 0) return UNINITIALIZED;
    if (is("lost") && card->index == 0 && card->power_reads > 5) return LOST;
    if (!is("chaos")) return OK;
    if (chance() % 50 == 0) usleep(chance() % 3000);
    return chance() % 4 ? OK : codes[chance() % (sizeof codes / sizeof *codes)];
}
#define ENTER(card) do { int code_ = enter(card); if (code_) return code_; } while (0)

int nvmlInit_v2(void) { return is("mismatch") ? MISMATCH : (users++, OK); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return users ? (users--, OK) : UNINITIALIZED; }
const char *nvmlErrorString(int code) { (void)code; return "fake error"; }

int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    strncpy(out, "12.535.54.03", size);
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return users ? OK : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **card) {
    if (index > 1) return INVALID;
    *card = &cards[index];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **card) {
    *card = &cards[uuid[strlen(uuid) - 1] - '0'];
    return enter(*card);
}

int nvmlDeviceGetName(device *card, char *out, unsigned size) {
    ENTER(card);
    strncpy(out, card->index ? "Fake B\x1b[31m" : "Fake A\xff", size);
    return OK;
}

int nvmlDeviceGetUUID(device *card, char *out, unsigned size) {
    ENTER(card);
    strncpy(out, "GPU-00000000-0000-0000-0000-000000000000", size);
    out[39] = (char)('0' + card->index);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(device *card, pci *out) {
    ENTER(card);
    memset(out, 0, sizeof *out);
    strcpy(out->id, card->index ? "00000000:3B:00.0" : "00000000:1A:00.0");
    return OK;
}

int nvmlDeviceGetUtilizationRates(device *card, utilization *out) {
    ENTER(card);
    out->gpu = 40u + (unsigned)card->index, out->memory = 10;
    return OK;
}

int nvmlDeviceGetPowerUsage(device *card, unsigned *milliwatts) {
    ENTER(card);
    card->power_reads++;
    if (is("slow")) usleep((unsigned)number("FAKE_NVML_MS", 100) * 1000);
    if (is("hang") && card->power_reads > 3) for (;;) pause();
    *milliwatts = 250000;
    return OK;
}

int nvmlDeviceGetClockInfo(device *card, unsigned kind, unsigned *mhz) {
    ENTER(card);
    *mhz = kind == 2 ? 2619 : 1500;
    return OK;
}

int nvmlDeviceGetMaxClockInfo(device *card, unsigned kind, unsigned *mhz) {
    ENTER(card);
    *mhz = kind == 2 ? 2619 : 1980;
    return OK;
}

int nvmlDeviceGetMemoryInfo(device *card, memory_v1 *out) {
    ENTER(card);
    out->total = 80ULL << 30, out->used = 3ULL << 30, out->free = out->total - out->used;
    return OK;
}

#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(device *card, memory_v2 *out) {
    ENTER(card);
    if (out->version != (sizeof *out | 2u << 24)) return 25;
    out->total = 80ULL << 30, out->used = 2ULL << 30, out->reserved = 1ULL << 30;
    out->free = out->total - out->used - out->reserved;
    return OK;
}

int nvmlDeviceGetTemperatureV(device *card, temperature_v1 *out) {
    ENTER(card);
    out->temperature = 61;
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(device *card, unsigned long long *mask) {
    ENTER(card);
    *mask = 0x20;
    return OK;
}
#endif

int nvmlDeviceGetTemperature(device *card, unsigned sensor, unsigned *out) {
    ENTER(card);
    (void)sensor, *out = 60;
    return OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device *card, unsigned long long *mask) {
    ENTER(card);
    *mask = 0x4;
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(device *card, unsigned long long *millijoules) {
    static unsigned long long energy = 1000000;
    ENTER(card);
    *millijoules = energy += 500000;
    return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(device *card, unsigned *milliwatts) {
    ENTER(card);
    *milliwatts = 700000;
    return OK;
}

static int processes(device *card, unsigned *count, process *rows) {
    ENTER(card);
    if (card->index || !count) return OK;
    if (rows == NULL || *count < 3) { *count = 3; return TOO_SMALL; }
    memset(rows, 0, 3 * sizeof *rows);
    rows[0].pid = (unsigned)getpid(), rows[0].used = 1ULL << 30;
    if (is("garbage")) {
        rows[0].pid = 0xFFFFFFF0u, rows[0].used = 0xFFFFFFFFFFFFULL;
        rows[1].pid = (unsigned)getppid(), rows[1].used = 1ULL << 60;
        rows[2].pid = 1, rows[2].used = UINT64_MAX;
        *count = 3;
    } else {
        *count = 1;
    }
    return OK;
}

#ifdef OLD
int nvmlDeviceGetComputeRunningProcesses_v2(device *card, unsigned *count, process *rows) {
    return processes(card, count, rows);
}
#else
int nvmlDeviceGetComputeRunningProcesses_v3(device *card, unsigned *count, process *rows) {
    return processes(card, count, rows);
}
#endif

int nvmlDeviceGetProcessUtilization(device *card, usage *rows, unsigned *count,
                                    unsigned long long since) {
    ENTER(card);
    (void)since;
    if (is("idle")) { *count = 0; return OK; }
    if (rows == NULL) { *count = 1; return TOO_SMALL; }
    memset(rows, 0, sizeof *rows);
    rows[0].pid = (unsigned)getpid(), rows[0].stamp = 5, rows[0].sm = 21;
    *count = 1;
    return OK;
}

int nvmlDeviceGetPcieThroughput(device *card, unsigned counter, unsigned *kib) {
    ENTER(card);
    *kib = 100 + counter;
    return OK;
}
