/* A stand-in for NVIDIA's management library, compiled against NVIDIA's own header and driven by the lab's state file. */
#include "state.h"
#include <nvml.h>

#define DEVICE(d) ((int)(long)(d) - 1)
#define COPY(to, size, ...) snprintf((to), (size), __VA_ARGS__)

static nvmlReturn_t library_error(void) {
    return (nvmlReturn_t)(int)state_number("error", 0);
}
/* Every call on a device begins here: hang, library error, lost GPU, forced error. */
static nvmlReturn_t enter(nvmlDevice_t device) {
    state_load();
    wait_while_hung();
    nvmlReturn_t wrong = library_error();
    if (wrong != NVML_SUCCESS) return wrong;
    int gpu = DEVICE(device);
    if (gpu < 0 || gpu >= 16) return NVML_ERROR_INVALID_ARGUMENT;
    if (gpu_number(gpu, "lost", 0) > 0) return NVML_ERROR_GPU_IS_LOST;
    return (nvmlReturn_t)(int)gpu_number(gpu, "error", 0);
}
#define ENTER(device) do { nvmlReturn_t r_ = enter(device); if (r_ != NVML_SUCCESS) return r_; } while (0)
/* A field can be denied or unsupported by name: deny.power=1, unsupported.temp=1. */
static nvmlReturn_t field_error(int gpu, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "unsupported.%s", name);
    if (gpu_number(gpu, key, 0) > 0) return NVML_ERROR_NOT_SUPPORTED;
    snprintf(key, sizeof key, "deny.%s", name);
    if (gpu_number(gpu, key, 0) > 0) return NVML_ERROR_NO_PERMISSION;
    return NVML_SUCCESS;
}
#define FIELD(device, name) do { ENTER(device); nvmlReturn_t f_ = field_error(DEVICE(device), name); \
    if (f_ != NVML_SUCCESS) return f_; } while (0)

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    state_load();
    wait_while_hung();
    return library_error();
}
nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    COPY(version, length, "%s", state_text("driver", "590.48.01"));
    return library_error();
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    COPY(version, length, "13.590.48.01");
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13010; return library_error(); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    state_load();
    wait_while_hung();
    *count = (unsigned)gpu_count_now();
    return library_error();
}
/* gone=N takes one GPU out of the list: the others move up, as after a reboot with a dead card. */
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    state_load();
    wait_while_hung();
    int gone = (int)state_number("gone", -1);
    if (index >= (unsigned)gpu_count_now()) return NVML_ERROR_INVALID_ARGUMENT;
    int gpu = gone >= 0 && (int)index >= gone ? (int)index + 1 : (int)index;
    *device = (nvmlDevice_t)(long)(gpu + 1);
    if (gpu_number(gpu, "lost", 0) > 0) return NVML_ERROR_GPU_IS_LOST;
    return library_error();
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *name, unsigned int length) {
    FIELD(d, "name");
    COPY(name, length, "NVIDIA H100 80GB HBM3");
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *uuid, unsigned int length) {
    FIELD(d, "uuid");
    uuid_of(DEVICE(d), uuid, length);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t d, char *serial, unsigned int length) {
    FIELD(d, "serial");
    COPY(serial, length, "165%07d%d", atoi(state_text("node", "0")), DEVICE(d));
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t d, char *version, unsigned int length) {
    FIELD(d, "vbios");
    COPY(version, length, "96.00.CF.00.02");
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci) {
    FIELD(d, "pci");
    memset(pci, 0, sizeof *pci);
    pci_of(DEVICE(d), pci->busId, sizeof pci->busId);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", pci->busId + 4);
    sscanf(pci->busId, "%x:%x:", &pci->domain, &pci->bus);
    pci->pciDeviceId = 0x233010de;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t s, unsigned int *temp) {
    (void)s;
    FIELD(d, "temp");
    *temp = (unsigned)(temp_of(DEVICE(d)) + 0.5);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t d, nvmlMarginTemperature_t *margin) {
    FIELD(d, "temp_margin");
    margin->marginTemperature = (int)(87 - temp_of(DEVICE(d)));
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned int *power) {
    FIELD(d, "power");
    *power = (unsigned)(power_of(DEVICE(d)) * 1000);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned int *limit) {
    FIELD(d, "power_limit");
    *limit = (unsigned)(gpu_number(DEVICE(d), "power_limit", 700) * 1000);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned int *clock) {
    FIELD(d, "clock");
    *clock = type == NVML_CLOCK_MEM ? 2619 : (unsigned)clock_of(DEVICE(d));
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned int *clock) {
    FIELD(d, "clock");
    *clock = type == NVML_CLOCK_MEM ? 2619 : 1980;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *util) {
    FIELD(d, "util");
    if (gpu_number(DEVICE(d), "mig", 0) > 0) return NVML_ERROR_NOT_SUPPORTED;
    util->gpu = (unsigned)(util_of(DEVICE(d)) + 0.5);
    util->memory = (unsigned)(mem_util_of(DEVICE(d)) + 0.5);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *memory) {
    FIELD(d, "memory");
    memory->total = 81559ull << 20;
    memory->reserved = 542ull << 20;
    memory->used = (unsigned long long)mem_used_of(DEVICE(d)) << 20;
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory) {
    FIELD(d, "memory");
    memory->total = 81559ull << 20;
    memory->used = (unsigned long long)(mem_used_of(DEVICE(d)) + 542) << 20;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t d, nvmlPstates_t *state) {
    FIELD(d, "pstate");
    *state = NVML_PSTATE_0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t d, nvmlEnableState_t *mode) {
    FIELD(d, "persistence");
    *mode = gpu_number(DEVICE(d), "persistence", 1) > 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *reasons) {
    FIELD(d, "clock_reasons");
    int gpu = DEVICE(d);
    *reasons = (unsigned long long)gpu_number(gpu, "clock_reasons", load_of(gpu) > 0 ? 0 : 1);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(d, reasons);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t d, unsigned int *gen) {
    FIELD(d, "pcie");
    *gen = (unsigned)gpu_number(DEVICE(d), "pcie_gen", 5);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned int *gen) {
    FIELD(d, "pcie");
    *gen = 5;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned int *width) {
    FIELD(d, "pcie");
    *width = (unsigned)gpu_number(DEVICE(d), "pcie_width", 16);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned int *width) {
    FIELD(d, "pcie");
    *width = 16;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t d, unsigned int *value) {
    FIELD(d, "pcie_replay");
    *value = (unsigned)gpu_number(DEVICE(d), "pcie_replay", 0);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending) {
    FIELD(d, "mig");
    *current = *pending = gpu_number(DEVICE(d), "mig", 0) > 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t d, nvmlEccSramErrorStatus_t *status) {
    FIELD(d, "sram");
    unsigned version = status->version;
    memset(status, 0, sizeof *status);
    status->version = version;
    status->bThresholdExceeded = gpu_number(DEVICE(d), "sram_threshold", 0) > 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *info) {
    FIELD(d, "fabric");
    memset(info, 0, sizeof *info);
    info->state = (unsigned char)gpu_number(DEVICE(d), "fabric_state", NVML_GPU_FABRIC_STATE_COMPLETED);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link, nvmlEnableState_t *active) {
    FIELD(d, "nvlink");
    if (link >= 18) return NVML_ERROR_INVALID_ARGUMENT;
    *active = (int)link < (int)gpu_number(DEVICE(d), "nvlinks_up", 18) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *count, nvmlProcessInfo_t *infos) {
    FIELD(d, "processes");
    int pid = (int)gpu_number(DEVICE(d), "process", 0);
    unsigned room = *count;
    *count = pid > 0;
    if (pid > 0 && room < 1) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (pid > 0) {
        memset(infos, 0, sizeof *infos);
        infos->pid = (unsigned)pid;
        infos->usedGpuMemory = (unsigned long long)mem_used_of(DEVICE(d)) << 20;
    }
    return NVML_SUCCESS;
}

static const struct { unsigned id; const char *key; double fallback; } fields[] = {
    {NVML_FI_DEV_ECC_CURRENT, "ecc_mode", 1},
    {NVML_FI_DEV_ECC_SBE_VOL_TOTAL, "ecc_cor", 0},
    {NVML_FI_DEV_ECC_DBE_VOL_TOTAL, "ecc_unc", 0},
    {NVML_FI_DEV_RETIRED_PENDING, NULL, 0},
    {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, "nvlink_errors", 0},
    {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, "nvlink_data_errors", 0},
    {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, "nvlink_replays", 0},
    {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, "nvlink_recoveries", 0},
    {NVML_FI_DEV_PERF_POLICY_POWER, "sw_power_us", 0},
    {NVML_FI_DEV_MEMORY_TEMP, "temp_mem", 45},
    {NVML_FI_DEV_NVLINK_LINK_COUNT, "nvlinks", 18},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, "pcie_replay", 0},
    {NVML_FI_DEV_REMAPPED_COR, "remap_cor", 0},
    {NVML_FI_DEV_REMAPPED_UNC, "remap_unc", 0},
    {NVML_FI_DEV_REMAPPED_PENDING, "remap_pending", 0},
    {NVML_FI_DEV_REMAPPED_FAILURE, "remap_failed", 0},
    {NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, "recovery_action", 0},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, "sw_thermal_us", 0},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, "hw_thermal_us", 0},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, "power_brake_us", 0},
};

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int count, nvmlFieldValue_t *values) {
    ENTER(d);
    int gpu = DEVICE(d);
    for (int k = 0; k < count; k++) {
        values[k].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        values[k].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            if (fields[f].id != values[k].fieldId || !fields[f].key) continue;
            nvmlReturn_t wrong = field_error(gpu, fields[f].key);
            values[k].nvmlReturn = wrong;
            if (wrong == NVML_SUCCESS)
                values[k].value.ullVal = (unsigned long long)gpu_number(gpu, fields[f].key, fields[f].fallback)
                    * (strstr(fields[f].key, "_us") ? 1000 : 1); /* the library counts nanoseconds, nvidia-smi microseconds */
        }
    }
    return NVML_SUCCESS;
}
