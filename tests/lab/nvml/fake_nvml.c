/* A stand-in for NVIDIA's management library, compiled against NVIDIA's own header and driven by the lab's state file. */
#include "state.h"
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#define DEVICE(d) ((int)(long)(d) - 1)
#define COPY(to, size, ...) snprintf((to), (size), __VA_ARGS__)

static nvmlReturn_t library_error(void) {
    return (nvmlReturn_t)(int)state_number("error", 0);
}
/* Every call on a device begins here: hang, library error, lost GPU, forced error. */
static nvmlReturn_t enter(nvmlDevice_t device) {
    int gpu = DEVICE(device);
    if (gpu < 0 || gpu >= 16) return NVML_ERROR_INVALID_ARGUMENT;
    state_load();
    wait_while_hung(gpu);
    nvmlReturn_t wrong = library_error();
    if (wrong != NVML_SUCCESS) return wrong;
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
    wait_while_hung(-1);
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
    wait_while_hung(-1);
    *count = (unsigned)gpu_count_now();
    return library_error();
}
static nvmlReturn_t handle_of(int gpu, nvmlDevice_t *device) {
    *device = (nvmlDevice_t)(long)(gpu + 1);
    if (gpu_number(gpu, "lost", 0) > 0) return NVML_ERROR_GPU_IS_LOST;
    return library_error();
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    state_load();
    wait_while_hung(-1);
    if (index >= (unsigned)gpu_count_now()) return NVML_ERROR_INVALID_ARGUMENT;
    return handle_of(gpu_at((int)index), device);
}
/* By the text that name_of writes for it. */
static nvmlReturn_t handle_by(const char *text, void (*name_of)(int, char *, size_t), nvmlDevice_t *device) {
    state_load();
    wait_while_hung(-1);
    for (int place = 0; place < gpu_count_now(); place++) {
        char name[96];
        name_of(gpu_at(place), name, sizeof name);
        /* A domain may be written with four digits or with eight. */
        if (!strcasecmp(name, text) || !strcasecmp(name + 4, text)) return handle_of(gpu_at(place), device);
    }
    return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) { return handle_by(uuid, uuid_of, device); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
    return handle_by(bus, pci_of, device);
}
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned int *index) {
    FIELD(d, "index");
    int gone = (int)state_number("gone", -1);
    *index = (unsigned)(DEVICE(d) - (gone >= 0 && DEVICE(d) > gone));
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *minor) {
    FIELD(d, "minor");
    *minor = (unsigned)DEVICE(d);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t d, unsigned int *board) {
    FIELD(d, "board");
    *board = 0x100u * (unsigned)(DEVICE(d) + 1);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t d, char *version, unsigned int length) {
    FIELD(d, "inforom");
    COPY(version, length, "G520.0200.00.05");
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t d, nvmlInforomObject_t object, char *version, unsigned int length) {
    FIELD(d, "inforom");
    COPY(version, length, "%s", object == NVML_INFOROM_ECC ? "7.16" : object == NVML_INFOROM_OEM ? "2.1" : "1.0");
    return NVML_SUCCESS;
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
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t d, nvmlTemperature_t *temp) {
    FIELD(d, "temp");
    if (temp->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    temp->temperature = (int)(temp_of(DEVICE(d)) + 0.5);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, nvmlTemperatureThresholds_t which, unsigned int *temp) {
    FIELD(d, "temp_threshold");
    switch (which) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN: *temp = 92; return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: *temp = 89; return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX: *temp = 87; return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_MEM_MAX: *temp = 95; return NVML_SUCCESS;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
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
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t d, unsigned int *limit) {
    return nvmlDeviceGetEnforcedPowerLimit(d, limit);
}
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t d, unsigned int *limit) {
    FIELD(d, "power_limit");
    *limit = 700000;
    return NVML_SUCCESS;
}
/* It grows at one pace, loaded or not, so that it never goes back. */
static unsigned long long energy_mj(int gpu) {
    return (unsigned long long)gpu_number(gpu, "energy_mj", (double)time(NULL) * 69000.0);
}
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *energy) {
    FIELD(d, "energy");
    *energy = energy_mj(DEVICE(d));
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
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t d, unsigned long long *reasons) {
    FIELD(d, "clock_reasons");
    *reasons = 0x1ff;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t d, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *time_of) {
    FIELD(d, "violation");
    const char *key = policy == NVML_PERF_POLICY_POWER ? "sw_power_us" : policy == NVML_PERF_POLICY_THERMAL ? "hw_thermal_us" : "";
    time_of->referenceTime = (unsigned long long)time(NULL) * 1000000ull;
    time_of->violationTime = *key ? (unsigned long long)(gpu_number(DEVICE(d), key, 0) * 1000) : 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, nvmlPcieUtilCounter_t counter, unsigned int *value) {
    (void)counter;
    FIELD(d, "pcie_throughput");
    *value = load_of(DEVICE(d)) > 0 ? (unsigned)(2400000 + 300000 * wobble(DEVICE(d), 5)) : 0;
    return NVML_SUCCESS;
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
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, nvmlEnableState_t *current, nvmlEnableState_t *pending) {
    FIELD(d, "ecc_mode");
    *current = *pending = gpu_number(DEVICE(d), "ecc_mode", 1) > 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(
    nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t since, unsigned long long *count) {
    const char *name = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? "ecc_unc" : "ecc_cor";
    FIELD(d, name);
    /* Since boot, or since the card was made: the second is at least the first. */
    double volatile_count = gpu_number(DEVICE(d), name, 0);
    *count = (unsigned long long)volatile_count;
    if (since == NVML_AGGREGATE_ECC) *count += (unsigned long long)gpu_number(DEVICE(d), "ecc_before_boot", 0);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(
    nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t since, nvmlMemoryLocation_t where,
    unsigned long long *count) {
    *count = 0;
    if (where == NVML_MEMORY_LOCATION_DRAM) return nvmlDeviceGetTotalEccErrors(d, type, since, count);
    FIELD(d, "ecc_unc");
    return where == NVML_MEMORY_LOCATION_SRAM ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}
nvmlReturn_t nvmlDeviceGetRemappedRows(
    nvmlDevice_t d, unsigned int *correctable, unsigned int *uncorrectable, unsigned int *pending, unsigned int *failed) {
    FIELD(d, "remap");
    *correctable = (unsigned)gpu_number(DEVICE(d), "remap_cor", 0);
    *uncorrectable = (unsigned)gpu_number(DEVICE(d), "remap_unc", 0);
    *pending = gpu_number(DEVICE(d), "remap_pending", 0) > 0;
    *failed = gpu_number(DEVICE(d), "remap_failed", 0) > 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t d, nvmlRowRemapperHistogramValues_t *values) {
    FIELD(d, "remap");
    memset(values, 0, sizeof *values);
    values->none = (unsigned)gpu_number(DEVICE(d), "remap_banks_none", 0);
    values->max = 640 - values->none;
    return NVML_SUCCESS;
}
/* Pages were retired before Ampere; newer cards remap rows. */
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t d, nvmlEnableState_t *pending) {
    (void)pending;
    ENTER(d);
    return NVML_ERROR_NOT_SUPPORTED;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending) {
    FIELD(d, "mig");
    *current = *pending = gpu_number(DEVICE(d), "mig", 0) > 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t d, nvmlEccSramErrorStatus_t *status) {
    FIELD(d, "sram");
    unsigned version = status->version;
    if (version != nvmlEccSramErrorStatus_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(status, 0, sizeof *status);
    status->version = version;
    status->volatileUncSecDed = (unsigned long long)gpu_number(DEVICE(d), "sram_unc", 0);
    status->aggregateUncSecDed = status->volatileUncSecDed;
    status->bThresholdExceeded = gpu_number(DEVICE(d), "sram_threshold", 0) > 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *info) {
    FIELD(d, "fabric");
    memset(info, 0, sizeof *info);
    info->state = (unsigned char)gpu_number(DEVICE(d), "fabric_state", NVML_GPU_FABRIC_STATE_COMPLETED);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfoV_t *info) {
    FIELD(d, "fabric");
    unsigned version = info->version;
    size_t size = version == nvmlGpuFabricInfo_v2 ? sizeof(nvmlGpuFabricInfo_v2_t) : sizeof(nvmlGpuFabricInfo_v3_t);
    if (version != nvmlGpuFabricInfo_v2 && version != nvmlGpuFabricInfo_v3) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(info, 0, size);
    info->version = version;
    info->state = (nvmlGpuFabricState_t)gpu_number(DEVICE(d), "fabric_state", NVML_GPU_FABRIC_STATE_COMPLETED);
    info->status = (nvmlReturn_t)(int)gpu_number(DEVICE(d), "fabric_status", NVML_SUCCESS);
    info->healthMask = (unsigned)gpu_number(DEVICE(d), "fabric_health", 0);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t d, unsigned int link, unsigned int *version) {
    FIELD(d, "nvlink");
    if (link >= 18) return NVML_ERROR_INVALID_ARGUMENT;
    *version = 4;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkCapability(
    nvmlDevice_t d, unsigned int link, nvmlNvLinkCapability_t capability, unsigned int *result) {
    FIELD(d, "nvlink");
    if (link >= 18) return NVML_ERROR_INVALID_ARGUMENT;
    *result = capability == NVML_NVLINK_CAP_P2P_SUPPORTED || capability == NVML_NVLINK_CAP_VALID;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(
    nvmlDevice_t d, unsigned int link, nvmlNvLinkErrorCounter_t counter, unsigned long long *value) {
    FIELD(d, "nvlink");
    if (link >= 18) return NVML_ERROR_INVALID_ARGUMENT;
    static const char *const keys[] = {"nvlink_replays", "nvlink_recoveries", "nvlink_errors", "nvlink_data_errors"};
    if ((unsigned)counter >= sizeof keys / sizeof *keys) return NVML_ERROR_INVALID_ARGUMENT;
    /* The state holds sums over the links; the first link has them. */
    *value = link == 0 ? (unsigned long long)gpu_number(DEVICE(d), keys[counter], 0) : 0;
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

/* Times are kept in microseconds, as nvidia-smi prints them; NVML gives nanoseconds. */
static const struct { unsigned id; const char *key; double fallback; double scale; } fields[] = {
    {NVML_FI_DEV_ECC_CURRENT, "ecc_mode", 1, 1},
    {NVML_FI_DEV_ECC_SBE_VOL_TOTAL, "ecc_cor", 0, 1},
    {NVML_FI_DEV_ECC_DBE_VOL_TOTAL, "ecc_unc", 0, 1},
    {NVML_FI_DEV_ECC_SBE_AGG_TOTAL, "ecc_cor", 0, 1},
    {NVML_FI_DEV_ECC_DBE_AGG_TOTAL, "ecc_unc", 0, 1},
    {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, "nvlink_errors", 0, 1},
    {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, "nvlink_data_errors", 0, 1},
    {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, "nvlink_replays", 0, 1},
    {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, "nvlink_recoveries", 0, 1},
    {NVML_FI_DEV_PERF_POLICY_POWER, "sw_power_us", 0, 1000},
    {NVML_FI_DEV_PERF_POLICY_THERMAL, "hw_thermal_us", 0, 1000},
    {NVML_FI_DEV_MEMORY_TEMP, "temp_mem", 45, 1},
    {NVML_FI_DEV_NVLINK_LINK_COUNT, "nvlinks", 18, 1},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, "pcie_replay", 0, 1},
    {NVML_FI_DEV_REMAPPED_COR, "remap_cor", 0, 1},
    {NVML_FI_DEV_REMAPPED_UNC, "remap_unc", 0, 1},
    {NVML_FI_DEV_REMAPPED_PENDING, "remap_pending", 0, 1},
    {NVML_FI_DEV_REMAPPED_FAILURE, "remap_failed", 0, 1},
    {NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, "recovery_action", 0, 1},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, "sw_thermal_us", 0, 1000},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, "hw_thermal_us", 0, 1000},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, "power_brake_us", 0, 1000},
};

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int count, nvmlFieldValue_t *values) {
    ENTER(d);
    int gpu = DEVICE(d);
    for (int k = 0; k < count; k++) {
        values[k].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        values[k].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        if (values[k].fieldId == NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION) {
            values[k].value.ullVal = energy_mj(gpu);
            values[k].nvmlReturn = NVML_SUCCESS;
        }
        if (values[k].fieldId == NVML_FI_DEV_POWER_INSTANT || values[k].fieldId == NVML_FI_DEV_POWER_AVERAGE) {
            values[k].value.ullVal = (unsigned long long)(power_of(gpu) * 1000);
            values[k].nvmlReturn = field_error(gpu, "power");
        }
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            if (fields[f].id != values[k].fieldId) continue;
            nvmlReturn_t wrong = field_error(gpu, fields[f].key);
            values[k].nvmlReturn = wrong;
            if (wrong == NVML_SUCCESS)
                values[k].value.ullVal = (unsigned long long)(
                    fields[f].scale * gpu_number(gpu, fields[f].key, fields[f].fallback));
        }
    }
    return NVML_SUCCESS;
}
