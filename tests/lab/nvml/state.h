/* The lab's state of one node: key=value lines in one file, re-read when it changes. */
#ifndef LAB_STATE_H
#define LAB_STATE_H
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STATE_FILE "/usr/lib/gputop-lab/nvml.state"
#define MAX_ENTRIES 256
#define GPUS 8

static struct { char key[64]; char value[160]; } entries[MAX_ENTRIES];
static int entry_count;
static struct timespec seen_mtime;
static off_t seen_size = -1;

static void state_load(void) {
    struct stat st;
    if (stat(STATE_FILE, &st) != 0) { entry_count = 0; return; }
    if (st.st_mtim.tv_sec == seen_mtime.tv_sec && st.st_mtim.tv_nsec == seen_mtime.tv_nsec && st.st_size == seen_size)
        return;
    FILE *f = fopen(STATE_FILE, "r");
    if (!f) return;
    char line[256];
    int n = 0;
    while (n < MAX_ENTRIES && fgets(line, sizeof line, f)) {
        char *eq = strchr(line, '=');
        if (!eq) continue;
        *eq = 0;
        snprintf(entries[n].key, sizeof entries[n].key, "%.63s", line);
        snprintf(entries[n].value, sizeof entries[n].value, "%.159s", eq + 1);
        entries[n].value[strcspn(entries[n].value, "\n")] = 0;
        n++;
    }
    fclose(f);
    entry_count = n;
    seen_mtime = st.st_mtim;
    seen_size = st.st_size;
}

static const char *state_text(const char *key, const char *fallback) {
    for (int k = 0; k < entry_count; k++)
        if (!strcmp(entries[k].key, key)) return entries[k].value;
    return fallback;
}

static double state_number(const char *key, double fallback) {
    const char *text = state_text(key, NULL);
    return text ? atof(text) : fallback;
}

/* gpu.N.key, else key, else the fallback. */
static double gpu_number(int gpu, const char *key, double fallback) {
    char full[96];
    snprintf(full, sizeof full, "gpu.%d.%s", gpu, key);
    const char *text = state_text(full, NULL);
    return text ? atof(text) : state_number(key, fallback);
}

/* Small deterministic movement, -1 to 1, by time and GPU. */
static double wobble(int gpu, int what) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long x = (unsigned long)now.tv_sec * 2654435761u + (unsigned)gpu * 40503u + (unsigned)what * 9176u;
    x ^= x >> 13; x *= 0x5bd1e995u; x ^= x >> 15;
    return (double)(x % 2001) / 1000.0 - 1.0;
}

static int gpu_count_now(void) {
    int n = (int)state_number("count", GPUS);
    return n < 0 ? 0 : n > 16 ? 16 : n;
}
static double load_of(int gpu) { return gpu_number(gpu, "load", 0.0); }
static double temp_of(int gpu) {
    return gpu_number(gpu, "temp", 31 + gpu % 4 + 32 * load_of(gpu) + wobble(gpu, 1) * (load_of(gpu) > 0 ? 2 : 0.6));
}
static double power_of(int gpu) {
    double busy = load_of(gpu);
    return gpu_number(gpu, "power", 69 + 560 * busy + wobble(gpu, 2) * (busy > 0 ? 14 : 1));
}
static double clock_of(int gpu) { return gpu_number(gpu, "sm_clock", load_of(gpu) > 0 ? 1980 : 345); }
static double util_of(int gpu) {
    double busy = load_of(gpu);
    double v = gpu_number(gpu, "util", busy > 0 ? 98 + wobble(gpu, 3) * 2 : 0);
    return v > 100 ? 100 : v;
}
static double mem_util_of(int gpu) { return gpu_number(gpu, "mem_util", load_of(gpu) > 0 ? 46 + wobble(gpu, 4) * 5 : 0); }
static double mem_used_of(int gpu) { return gpu_number(gpu, "mem_used", load_of(gpu) > 0 ? 71000 : 4); }

static void pci_of(int gpu, char *out, size_t size) {
    static const unsigned bus[] = {0x0a, 0x18, 0x3b, 0x44, 0x87, 0x90, 0xb8, 0xc1};
    snprintf(out, size, "%08X:%02X:00.0", 0, gpu < 8 ? bus[gpu] : 0xd0u + (unsigned)gpu);
}
static void uuid_of(int gpu, char *out, size_t size) {
    const char *node = state_text("node", "0");
    snprintf(out, size, "GPU-1ab00000-%04x-4%03x-8000-%012lx", gpu, gpu, strtoul(node, NULL, 10));
}
/* The GPU at a place in the driver's list: gone=N takes one out, and the others move up. */
static int gpu_at(int place) {
    int gone = (int)state_number("gone", -1);
    return gone >= 0 && place >= gone ? place + 1 : place;
}
static int hung(int gpu) { return state_number("hang", 0) > 0 || (gpu >= 0 && gpu_number(gpu, "hang", 0) > 0); }
/* As in a wedged driver: no call comes back. With hang_hard=1 nothing short of SIGKILL ends the caller either. */
static void wait_while_hung(int gpu) {
    sigset_t all, before;
    int hard = hung(gpu) && state_number("hang_hard", 0) > 0;
    if (hard) {
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before);
    }
    while (hung(gpu)) {
        usleep(100000);
        state_load();
    }
    if (hard) sigprocmask(SIG_SETMASK, &before, NULL);
}
#endif
