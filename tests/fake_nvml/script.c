/* The script: a line for each fact, "key value…". What follows "gpu" is of that GPU, what follows "instance" of that instance. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *key; size_t at; } Number;
typedef struct { const char *key; size_t at, bytes; } Text;
#define GPU_NUMBER(field) { #field, offsetof(Gpu, field) }
#define INSTANCE_NUMBER(field) { #field, offsetof(Instance, field) }

static const Number MACHINE_NUMBERS[] = { { "cuda", offsetof(Machine, cuda) }, { "init_fails", offsetof(Machine, init_fails) }, { "counts_calls", offsetof(Machine, counts_calls) }, { NULL, 0 } };
static const Number GPU_NUMBERS[] = {
    GPU_NUMBER(memory_mib), GPU_NUMBER(used_mib), GPU_NUMBER(reserved_mib), GPU_NUMBER(utilisation), GPU_NUMBER(memory_utilisation),
    GPU_NUMBER(power_mw), GPU_NUMBER(power_limit_mw), GPU_NUMBER(energy_mj), GPU_NUMBER(temperature_c), GPU_NUMBER(memory_temperature_c),
    GPU_NUMBER(slowdown_c), GPU_NUMBER(fan), GPU_NUMBER(sm_clock_mhz), GPU_NUMBER(memory_clock_mhz), GPU_NUMBER(throttle),
    GPU_NUMBER(ecc_corrected), GPU_NUMBER(ecc_uncorrected), GPU_NUMBER(remapped_corrected), GPU_NUMBER(remapped_uncorrected),
    GPU_NUMBER(remap_pending), GPU_NUMBER(remap_failed), GPU_NUMBER(pcie_tx_bytes), GPU_NUMBER(pcie_rx_bytes), GPU_NUMBER(architecture),
    GPU_NUMBER(mig), GPU_NUMBER(pending), GPU_NUMBER(lost), GPU_NUMBER(has_gpm), GPU_NUMBER(hides_instances), { NULL, 0 },
};
static const Number INSTANCE_NUMBERS[] = {
    INSTANCE_NUMBER(gi), INSTANCE_NUMBER(ci), INSTANCE_NUMBER(slot), INSTANCE_NUMBER(start), INSTANCE_NUMBER(size),
    INSTANCE_NUMBER(memory_mib), INSTANCE_NUMBER(used_mib), INSTANCE_NUMBER(has_gpm), { NULL, 0 },
};
static const Text MACHINE_TEXTS[] = { { "driver", offsetof(Machine, driver), WORD_BYTES }, { NULL, 0, 0 } };
static const Text GPU_TEXTS[] = { { "name", offsetof(Gpu, name), NAME_BYTES }, { "uuid", offsetof(Gpu, uuid), NAME_BYTES }, { "refuses_cut", offsetof(Gpu, refuses_cut), WORD_BYTES }, { NULL, 0, 0 } };
static const Text INSTANCE_TEXTS[] = { { "uuid", offsetof(Instance, uuid), NAME_BYTES }, { "profile", offsetof(Instance, profile), WORD_BYTES }, { NULL, 0, 0 } };

static void *one_more(void *list, size_t *count, size_t bytes)
{
    char *longer = realloc(list, (*count + 1) * bytes);
    if (longer == NULL)
        abort();
    memset(longer + *count * bytes, 0, bytes);
    *count += 1;
    return longer;
}
#define ADD(list, count) ((list) = one_more((list), &(count), sizeof *(list)), (list) + (count) - 1)

static int took_field(void *into, const Number *numbers, const Text *texts, const char *key, const char *value)
{
    for (; numbers->key; numbers++)
        if (!strcmp(numbers->key, key)) {
            *(int64_t *)((char *)into + numbers->at) = strtoll(value, NULL, 10);
            return 1;
        }
    for (; texts->key; texts++)
        if (!strcmp(texts->key, key)) {
            snprintf((char *)into + texts->at, texts->bytes, "%s", value);
            return 1;
        }
    return 0;
}

static int took_process(Process *process, const char *value)
{
    return sscanf(value, "%ld %ld %ld %ld %c", &process->pid, &process->memory_mib, &process->sm, &process->mem, &process->kind) == 5;
}

static int took_gpu_line(Gpu *gpu, Instance *instance, const char *key, const char *value)
{
    if (!strcmp(key, "process"))
        return took_process(instance ? ADD(instance->processes, instance->process_count) : ADD(gpu->processes, gpu->process_count), value);
    if (!strcmp(key, "gpm")) {
        Metric *metric = instance ? ADD(instance->metrics, instance->metric_count) : ADD(gpu->metrics, gpu->metric_count);
        return sscanf(value, "%u %lf", &metric->id, &metric->value) == 2;
    }
    if (!strcmp(key, "fails") && gpu->fail_count < MOST_FAILS) {
        Word *word = &gpu->fails[gpu->fail_count++];
        return sscanf(value, "%63s %d", word->text, &word->code) == 2;
    }
    if (instance)
        return took_field(instance, INSTANCE_NUMBERS, INSTANCE_TEXTS, key, value);
    return took_field(gpu, GPU_NUMBERS, GPU_TEXTS, key, value);
}

static int took_line(Machine *machine, Gpu **gpu, Instance **instance, const char *key, const char *value)
{
    if (!strcmp(key, "gpu")) {
        *gpu = ADD(machine->gpus, machine->gpu_count);
        (*gpu)->index = (unsigned)machine->gpu_count - 1;
        *instance = NULL;
        return 1;
    }
    if (!strcmp(key, "instance") && *gpu) {
        *instance = ADD((*gpu)->instances, (*gpu)->instance_count);
        return 1;
    }
    if (*gpu)
        return took_gpu_line(*gpu, *instance, key, value);
    if (!strcmp(key, "hang"))
        return snprintf(ADD(machine->hangs, machine->hang_count)->text, WORD_BYTES, "%s", value) > 0;
    if (!strcmp(key, "xid")) {
        Xid *xid = ADD(machine->xids, machine->xid_count);
        return sscanf(value, "%ld %ld %ld", &xid->gpu, &xid->code, &xid->number) == 3;
    }
    return took_field(machine, MACHINE_NUMBERS, MACHINE_TEXTS, key, value);
}

Machine *read_script(const char *path)
{
    FILE *file = path ? fopen(path, "re") : NULL;
    if (file == NULL)
        return NULL;
    Machine *machine = calloc(1, sizeof *machine);
    if (machine == NULL)
        abort();
    Gpu *gpu = NULL;
    Instance *instance = NULL;
    char line[512];
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "\n")] = '\0';
        char *value = line + strcspn(line, " ");
        if (*value)
            *value++ = '\0';
        if (!took_line(machine, &gpu, &instance, line, value)) {
            fprintf(stderr, "fake_nvml: line %d of %s says \"%s %s\", which nobody understands. Let FakeNvml.write() make the script.\n", number, path, line, value);
            abort();
        }
    }
    fclose(file);
    return machine;
}

static void take_instance(Instance *into, const Gpu *gpu) /* what is on it, if it was there before */
{
    for (const Instance *old = gpu->instances; old < gpu->instances + gpu->instance_count; old++)
        if (into->uuid[0] && !strcmp(old->uuid, into->uuid)) {
            into->used_mib = old->used_mib;
            into->has_gpm = old->has_gpm;
            for (size_t i = 0; i < old->metric_count; i++)
                *ADD(into->metrics, into->metric_count) = old->metrics[i];
            for (size_t i = 0; i < old->process_count; i++)
                *ADD(into->processes, into->process_count) = old->processes[i];
        }
}

void take_cut(Machine *machine, Machine *cut)
{
    for (Gpu *gpu = machine->gpus; cut && gpu < machine->gpus + machine->gpu_count; gpu++)
        for (Gpu *told = cut->gpus; told < cut->gpus + cut->gpu_count; told++)
            if (!strcmp(told->uuid, gpu->uuid)) {
                Instance *old = gpu->instances;
                size_t old_count = gpu->instance_count;
                for (size_t i = 0; i < told->instance_count; i++)
                    take_instance(&told->instances[i], gpu);
                gpu->mig = told->mig;
                gpu->pending = told->pending;
                gpu->instances = told->instances;
                gpu->instance_count = told->instance_count;
                told->instances = old;
                told->instance_count = old_count;
            }
    free_machine(cut);
}

void free_machine(Machine *machine)
{
    if (machine == NULL)
        return;
    for (Gpu *gpu = machine->gpus; gpu < machine->gpus + machine->gpu_count; gpu++) {
        for (Instance *instance = gpu->instances; instance < gpu->instances + gpu->instance_count; instance++) {
            free(instance->metrics);
            free(instance->processes);
        }
        free(gpu->instances);
        free(gpu->metrics);
        free(gpu->processes);
    }
    free(machine->gpus);
    free(machine->hangs);
    free(machine->xids);
    free(machine);
}
