/* A stand-in for nvidia-smi's query interface, on the same state file as the library. */
#include "state.h"
#include <ctype.h>

static const char *names[] = {
    "index", "uuid", "pci.bus_id", "name", "serial", "driver_version", "vbios_version", "pstate", "persistence_mode",
    "temperature.gpu", "temperature.gpu.tlimit", "temperature.memory", "power.draw", "enforced.power.limit",
    "clocks.current.sm", "clocks.max.sm", "clocks.current.memory", "utilization.gpu", "utilization.memory", "memory.used",
    "memory.total", "clocks_event_reasons.active", "clocks_event_reasons_counters.hw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_power_brake_slowdown", "clocks_event_reasons_counters.sw_thermal_slowdown",
    "clocks_event_reasons_counters.sw_power_cap", "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current",
    "pcie.link.width.max", "ecc.mode.current", "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.corrected.volatile.total", "remapped_rows.pending", "remapped_rows.failure",
    "remapped_rows.uncorrectable", "remapped_rows.correctable", "retired_pages.pending", "gpu_recovery_action",
    "fabric.state", "fabric.status", "mig.mode.current",
};
#define NAMES (sizeof names / sizeof *names)

static int known(const char *name) {
    for (size_t k = 0; k < NAMES; k++)
        if (!strcmp(names[k], name)) return 1;
    return 0;
}
static const char *recovery_action(int gpu) {
    static const char *const words[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"};
    int action = (int)gpu_number(gpu, "recovery_action", 0);
    return action >= 0 && action < 5 ? words[action] : "Unknown";
}
static void field(int gpu, const char *n, char *o, size_t z) {
    char key[96];
    snprintf(key, sizeof key, "gpu.%d.smi.%s", gpu, n);
    const char *forced = state_text(key, NULL);
    if (forced) { snprintf(o, z, "%s", forced); return; }
#define IS(x) else if (!strcmp(n, x))
#define NUM(f, ...) snprintf(o, z, f, __VA_ARGS__)
    if (!strcmp(n, "uuid")) uuid_of(gpu, o, z);
    IS("pci.bus_id") pci_of(gpu, o, z);
    IS("name") NUM("%s", "NVIDIA H100 80GB HBM3");
    IS("serial") NUM("165%07d%d", atoi(state_text("node", "0")), gpu);
    IS("driver_version") NUM("%s", state_text("driver", "590.48.01"));
    IS("vbios_version") NUM("%s", "96.00.CF.00.02");
    IS("pstate") NUM("%s", "P0");
    IS("persistence_mode") NUM("%s", "Enabled");
    IS("temperature.gpu") NUM("%.0f", temp_of(gpu));
    IS("temperature.gpu.tlimit") NUM("%.0f", 87 - temp_of(gpu));
    IS("temperature.memory") NUM("%.0f", gpu_number(gpu, "temp_mem", 45));
    IS("power.draw") NUM("%.2f", power_of(gpu));
    IS("enforced.power.limit") NUM("%.2f", gpu_number(gpu, "power_limit", 700));
    IS("clocks.current.sm") NUM("%.0f", clock_of(gpu));
    IS("clocks.max.sm") NUM("%d", 1980);
    IS("clocks.current.memory") NUM("%d", 2619);
    IS("utilization.gpu") NUM("%.0f", util_of(gpu));
    IS("utilization.memory") NUM("%.0f", mem_util_of(gpu));
    IS("memory.used") NUM("%.0f", mem_used_of(gpu));
    IS("memory.total") NUM("%d", 81559);
    IS("clocks_event_reasons.active")
        NUM("0x%016llx", (unsigned long long)gpu_number(gpu, "clock_reasons", load_of(gpu) > 0 ? 0 : 1));
    IS("clocks_event_reasons_counters.hw_thermal_slowdown") NUM("%.0f", gpu_number(gpu, "hw_thermal_us", 0));
    IS("clocks_event_reasons_counters.hw_power_brake_slowdown") NUM("%.0f", gpu_number(gpu, "power_brake_us", 0));
    IS("clocks_event_reasons_counters.sw_thermal_slowdown") NUM("%.0f", gpu_number(gpu, "sw_thermal_us", 0));
    IS("clocks_event_reasons_counters.sw_power_cap") NUM("%.0f", gpu_number(gpu, "sw_power_us", 0));
    IS("pcie.link.gen.current") NUM("%.0f", gpu_number(gpu, "pcie_gen", 5));
    IS("pcie.link.gen.max") NUM("%d", 5);
    IS("pcie.link.width.current") NUM("%.0f", gpu_number(gpu, "pcie_width", 16));
    IS("pcie.link.width.max") NUM("%d", 16);
    IS("ecc.mode.current") NUM("%s", "Enabled");
    IS("ecc.errors.uncorrected.volatile.total") NUM("%.0f", gpu_number(gpu, "ecc_unc", 0));
    IS("ecc.errors.corrected.volatile.total") NUM("%.0f", gpu_number(gpu, "ecc_cor", 0));
    IS("remapped_rows.pending") NUM("%s", gpu_number(gpu, "remap_pending", 0) > 0 ? "Yes" : "No");
    IS("remapped_rows.failure") NUM("%s", gpu_number(gpu, "remap_failed", 0) > 0 ? "Yes" : "No");
    IS("remapped_rows.uncorrectable") NUM("%.0f", gpu_number(gpu, "remap_unc", 0));
    IS("remapped_rows.correctable") NUM("%.0f", gpu_number(gpu, "remap_cor", 0));
    IS("retired_pages.pending") NUM("%s", "[N/A]");
    IS("gpu_recovery_action") NUM("%s", recovery_action(gpu));
    IS("fabric.state") NUM("%s", "Completed");
    IS("fabric.status") NUM("%s", "Success");
    IS("mig.mode.current") NUM("%s", gpu_number(gpu, "mig", 0) > 0 ? "Enabled" : "Disabled");
    else NUM("%s", "[N/A]");
}
/* As in the library: unsupported.KEY and deny.KEY take a field away from one GPU or from all. */
static const char *const withheld[][2] = {
    {"temperature.gpu", "temp"}, {"temperature.memory", "temp_mem"}, {"power.draw", "power"},
    {"enforced.power.limit", "power_limit"}, {"clocks.current.sm", "clock"}, {"utilization.gpu", "util"},
    {"utilization.memory", "util"}, {"memory.used", "memory"}, {"memory.total", "memory"},
    {"clocks_event_reasons.active", "clock_reasons"}, {"pcie.link.gen.current", "pcie"},
    {"pcie.link.width.current", "pcie"}, {"ecc.errors.uncorrected.volatile.total", "ecc_unc"},
    {"ecc.errors.corrected.volatile.total", "ecc_cor"}, {"gpu_recovery_action", "recovery_action"},
};
static void show(int gpu, const char *name, char *out, size_t size) {
    char key[64];
    for (size_t k = 0; k < sizeof withheld / sizeof *withheld; k++) {
        if (strcmp(withheld[k][0], name)) continue;
        snprintf(key, sizeof key, "unsupported.%s", withheld[k][1]);
        if (gpu_number(gpu, key, 0) > 0) { snprintf(out, size, "[N/A]"); return; }
        snprintf(key, sizeof key, "deny.%s", withheld[k][1]);
        if (gpu_number(gpu, key, 0) > 0) { snprintf(out, size, "[Insufficient Permissions]"); return; }
    }
    field(gpu, name, out, size);
}
static int matches(int gpu, const char *id) {
    char text[96];
    if (isdigit((unsigned char)id[0]) && strlen(id) < 4) return gpu_at(atoi(id)) == gpu;
    uuid_of(gpu, text, sizeof text);
    if (!strcmp(text, id)) return 1;
    pci_of(gpu, text, sizeof text);
    return !strcasecmp(text, id);
}
int main(int argc, char **argv) {
    const char *query = NULL, *id = NULL;
    for (int k = 1; k < argc; k++) {
        if (!strncmp(argv[k], "--query-gpu=", 12)) query = argv[k] + 12;
        else if (!strncmp(argv[k], "--id=", 5)) id = argv[k] + 5;
        else if (!strcmp(argv[k], "-i") && k + 1 < argc) id = argv[++k];
        else if (!strcmp(argv[k], "--help-query-gpu")) {
            printf("List of valid properties to query for the switch \"--query-gpu\":\n\n");
            for (size_t n = 0; n < NAMES; n++) printf("\"%s\"\nA property of the lab.\n\n", names[n]);
            return 0;
        }
    }
    state_load();
    wait_while_hung(-1);
    if (state_number("error", 0) == 18) {
        printf("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 590.48\n");
        return 18;
    }
    if (state_number("error", 0) > 0) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n");
        return 9;
    }
    if (!query) { printf("NVIDIA-SMI 590.48.01\n"); return 0; }
    char list[4096], *save = NULL, *fields[128];
    int width = 0;
    snprintf(list, sizeof list, "%s", query);
    for (char *part = strtok_r(list, ",", &save); part && width < 128; part = strtok_r(NULL, ",", &save)) {
        if (!known(part)) { printf("Field \"%s\" is not a valid field to query.\n\n", part); return 2; }
        fields[width++] = part;
    }
    int found = 0;
    for (int place = 0; place < gpu_count_now(); place++) {
        int gpu = gpu_at(place);
        if (id && !matches(gpu, id)) continue;
        wait_while_hung(gpu);
        if (gpu_number(gpu, "lost", 0) > 0) {
            char pci[32];
            pci_of(gpu, pci, sizeof pci);
            printf("Unable to determine the device handle for GPU%s: Unknown Error\n", pci + 4);
            return 15;
        }
        found++;
    }
    if (!found) { printf("No devices were found\n"); return 6; }
    for (int place = 0; place < gpu_count_now(); place++) {
        int gpu = gpu_at(place);
        if (id && !matches(gpu, id)) continue;
        for (int k = 0; k < width; k++) {
            char text[160];
            if (!strcmp(fields[k], "index")) snprintf(text, sizeof text, "%d", place);
            else show(gpu, fields[k], text, sizeof text);
            printf("%s%s", k ? ", " : "", text);
        }
        printf("\n");
    }
    return 0;
}
