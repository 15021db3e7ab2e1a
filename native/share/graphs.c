/* Hooks of graphs that allocate. Their memory comes with the first launch or upload of an executable graph and stays with the device's graph memory
   until that is trimmed. A node that cannot fit is refused when it is added; a launch is charged by the sum of its nodes, then by what is reserved.
   A graph without such nodes costs one look at one word; launches of kernels are not hooked at all. */
#include "share.h"

enum { DEEPEST = 16, PAGE = 2 << 20, LAUNCHED = 1 };
struct sums {
    uint64_t bytes[LEDGER_GPUS];
    Device device[LEDGER_GPUS];
};

static Device node_device(const AllocNode *node) {
    return node->pool.location.kind == ON_DEVICE_DOMAIN ? node->pool.location.id & 0xff : node->pool.location.id;
}

static uint64_t reserved_now(Device device, uint64_t otherwise) {
    Result (*get)(Device, int, void *) = REAL(Result(*)(Device, int, void *), cuDeviceGetGraphMemAttribute);
    uint64_t value = 0;
    return get != NULL && get(device, GRAPH_RESERVED_NOW, &value) == 0 ? value : otherwise;
}

static void settle(struct process *process, int gpu, Device device, uint64_t advance) {
    uint64_t held = reserved_now(device, process->graph_bytes[gpu]), had = added(process->graph_bytes[gpu], advance);
    process->graph_bytes[gpu] = held;
    if (held <= had)
        give_back(process, gpu, had - held);
    else
        book_force(&process->book, gpu, held - had);
}

void graphs_settle(struct process *process, Device device) {
    int gpu = gpu_of(process, device);
    if (gpu != NOT_OURS && process->graph_bytes[gpu] > 0)
        settle(process, gpu, device, 0);
}

/* What finished graphs left goes back to the device; each takes it anew when it is launched again. */
static Result trim(struct process *process, int gpu, Device device) {
    Result (*driver)(Device) = REAL(Result(*)(Device), cuDeviceGraphMemTrim);
    Result result = driver == NULL ? CUDA_NOT_INITIALIZED : driver(device);
    if (result != 0 || gpu == NOT_OURS)
        return result;
    for (size_t i = 0; i < process->lives.room; i++)
        if (process->lives.all[i].kind == LIVE_EXEC && process->lives.all[i].gpu == gpu)
            process->lives.all[i].refs = 0;
    settle(process, gpu, device, 0);
    return 0;
}

static bool charge_or_trim(struct process *process, int gpu, Device device, uint64_t bytes) {
    if (charge(process, gpu, bytes))
        return true;
    if (gpu == NOT_OURS)
        return false;
    pools_trim(process, gpu);
    (void)trim(process, gpu, device);
    return charge(process, gpu, bytes);
}

/* Only whether it can fit: memory is taken later, by launching. */
static bool can_fit(struct process *process, Device device, uint64_t bytes) {
    int gpu = gpu_of(process, device);
    lock(&process->lock);
    bool fits = charge_or_trim(process, gpu, device, bytes);
    if (fits) {
        give_back(process, gpu, bytes);
        process->has_alloc_nodes = true;
    }
    unlock(&process->lock);
    return fits;
}

bool graph_alloc_captured(struct wanted *current, uint64_t bytes) {
    return can_fit(current->process, current->device, bytes);
}

EXPORT Result cuGraphAddMemAllocNode(Node *node, Graph graph, const Node *after, size_t count, AllocNode *wanted) {
    typedef Result (*Driver)(Node *, Graph, const Node *, size_t, AllocNode *);
    Driver driver = REAL(Driver, cuGraphAddMemAllocNode);
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (wanted != NULL && !can_fit(here(), node_device(wanted), wanted->bytes))
        return CUDA_OUT_OF_MEMORY;
    return driver(node, graph, after, count, wanted);
}

static bool may_add(const NodeParams *wanted) {
    return wanted == NULL || wanted->type != NODE_MEM_ALLOC || can_fit(here(), node_device(&wanted->alloc), wanted->alloc.bytes);
}

EXPORT Result cuGraphAddNode(Node *node, Graph graph, const Node *after, size_t count, NodeParams *wanted) {
    typedef Result (*Driver)(Node *, Graph, const Node *, size_t, NodeParams *);
    Driver driver = REAL(Driver, cuGraphAddNode);
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    return may_add(wanted) ? driver(node, graph, after, count, wanted) : CUDA_OUT_OF_MEMORY;
}

typedef Result (*AddNode)(Node *, Graph, const Node *, const void *, size_t, NodeParams *);

EXPORT Result cuGraphAddNode_v2(Node *node, Graph graph, const Node *after, const void *edges, size_t count, NodeParams *wanted) {
    AddNode driver = REAL(AddNode, cuGraphAddNode_v2);
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    return may_add(wanted) ? driver(node, graph, after, edges, count, wanted) : CUDA_OUT_OF_MEMORY;
}

EXPORT Result cuGraphAddNode_v3(Node *node, Graph graph, const Node *after, const void *edges, size_t count, NodeParams *wanted) {
    AddNode driver = REAL(AddNode, cuGraphAddNode_v3);
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    return may_add(wanted) ? driver(node, graph, after, edges, count, wanted) : CUDA_OUT_OF_MEMORY;
}

static void sum_graph(struct process *process, Graph graph, struct sums *into, int depth);

static void sum_node(struct process *process, Node node, struct sums *into, int depth) {
    Result (*get_type)(Node, int *) = REAL(Result(*)(Node, int *), cuGraphNodeGetType);
    Result (*get_alloc)(Node, AllocNode *) = REAL(Result(*)(Node, AllocNode *), cuGraphMemAllocNodeGetParams);
    Result (*get_child)(Node, Graph *) = REAL(Result(*)(Node, Graph *), cuGraphChildGraphNodeGetGraph);
    AllocNode alloc;
    Graph child;
    int type;
    if (get_type == NULL || get_type(node, &type) != 0)
        return;
    if (type == NODE_CHILD_GRAPH && get_child != NULL && get_child(node, &child) == 0)
        sum_graph(process, child, into, depth + 1);
    if (type != NODE_MEM_ALLOC || get_alloc == NULL || get_alloc(node, &alloc) != 0)
        return;
    int gpu = gpu_of(process, node_device(&alloc));
    if (gpu != NOT_OURS) {
        into->bytes[gpu] = added(into->bytes[gpu], rounded_up(alloc.bytes, PAGE));
        into->device[gpu] = node_device(&alloc);
    }
}

static void sum_graph(struct process *process, Graph graph, struct sums *into, int depth) {
    Result (*get_nodes)(Graph, Node *, size_t *) = REAL(Result(*)(Graph, Node *, size_t *), cuGraphGetNodes);
    size_t count = 0;
    if (depth > DEEPEST || get_nodes == NULL || get_nodes(graph, NULL, &count) != 0 || count == 0)
        return;
    size_t bytes = count * sizeof(Node);
    Node *nodes = map_private(bytes);
    if (nodes == NULL)
        return;
    if (get_nodes(graph, nodes, &count) == 0)
        for (size_t i = 0; i < count; i++)
            sum_node(process, nodes[i], into, depth);
    unmap(nodes, bytes);
}

static Result instantiated(Result result, Exec *exec, Graph graph) {
    struct process *process = here();
    struct sums sums = {0};
    if (result != 0 || !process->has_alloc_nodes)
        return result;
    sum_graph(process, graph, &sums, 0);
    lock(&process->lock);
    for (int gpu = 0; gpu < process->limits.count; gpu++) {
        struct live *live = sums.bytes[gpu] == 0 ? NULL : live_add(&process->lives, LIVE_EXEC, (uint64_t)*exec + (uint64_t)gpu, sums.bytes[gpu], 0);
        if (live == NULL)
            continue;
        live->gpu = (int16_t)gpu;
        live->device = (int16_t)sums.device[gpu];
        process->graph_gpus |= 1u << gpu;
    }
    unlock(&process->lock);
    return result;
}

typedef Result (*Instantiate)(Exec *, Graph, Node *, char *, size_t);
typedef Result (*InstantiateWithParams)(Exec *, Graph, void *);

EXPORT Result cuGraphInstantiate(Exec *exec, Graph graph, Node *where, char *log, size_t size) {
    Instantiate driver = REAL(Instantiate, cuGraphInstantiate);
    return driver == NULL ? CUDA_NOT_INITIALIZED : instantiated(driver(exec, graph, where, log, size), exec, graph);
}

EXPORT Result cuGraphInstantiate_v2(Exec *exec, Graph graph, Node *where, char *log, size_t size) {
    Instantiate driver = REAL(Instantiate, cuGraphInstantiate_v2);
    return driver == NULL ? CUDA_NOT_INITIALIZED : instantiated(driver(exec, graph, where, log, size), exec, graph);
}

EXPORT Result cuGraphInstantiateWithFlags(Exec *exec, Graph graph, unsigned long long flags) {
    typedef Result (*Driver)(Exec *, Graph, unsigned long long);
    Driver driver = REAL(Driver, cuGraphInstantiateWithFlags);
    return driver == NULL ? CUDA_NOT_INITIALIZED : instantiated(driver(exec, graph, flags), exec, graph);
}

EXPORT Result cuGraphInstantiateWithParams(Exec *exec, Graph graph, void *how) {
    InstantiateWithParams driver = REAL(InstantiateWithParams, cuGraphInstantiateWithParams);
    return driver == NULL ? CUDA_NOT_INITIALIZED : instantiated(driver(exec, graph, how), exec, graph);
}

EXPORT Result cuGraphInstantiateWithParams_ptsz(Exec *exec, Graph graph, void *how) {
    InstantiateWithParams driver = REAL(InstantiateWithParams, cuGraphInstantiateWithParams_ptsz);
    return driver == NULL ? CUDA_NOT_INITIALIZED : instantiated(driver(exec, graph, how), exec, graph);
}

/* Charges what the graph does not have yet. False: it may not have it; what was charged for other GPUs is settled by the caller. */
static bool charge_launch(struct process *process, Exec exec, uint64_t advances[LEDGER_GPUS]) {
    for (int gpu = 0; gpu < process->limits.count; gpu++) {
        struct live *live = (process->graph_gpus >> gpu & 1) == 0 ? NULL : live_find(&process->lives, LIVE_EXEC, (uint64_t)exec + (uint64_t)gpu);
        if (live == NULL || live->refs == LAUNCHED)
            continue;
        if (!charge_or_trim(process, gpu, live->device, live->bytes))
            return false;
        advances[gpu] = live->bytes;
    }
    return true;
}

static void settle_launch(struct process *process, Exec exec, const uint64_t advances[LEDGER_GPUS], Result result) {
    for (int gpu = 0; gpu < process->limits.count; gpu++) {
        struct live *live = (process->graph_gpus >> gpu & 1) == 0 ? NULL : live_find(&process->lives, LIVE_EXEC, (uint64_t)exec + (uint64_t)gpu);
        if (live == NULL)
            continue;
        live->refs = result == 0 ? LAUNCHED : live->refs;
        settle(process, gpu, live->device, advances[gpu]);
    }
}

static Result launch(Result (*driver)(Exec, Stream), Exec exec, Stream stream) {
    struct process *process = here();
    uint64_t advances[LEDGER_GPUS] = {0};
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (__atomic_load_n(&process->graph_gpus, __ATOMIC_RELAXED) == 0)
        return driver(exec, stream);
    lock(&process->lock);
    Result result = charge_launch(process, exec, advances) ? driver(exec, stream) : CUDA_OUT_OF_MEMORY;
    settle_launch(process, exec, advances, result);
    unlock(&process->lock);
    return result;
}

EXPORT Result cuGraphLaunch(Exec exec, Stream stream) {
    return launch(REAL(Result(*)(Exec, Stream), cuGraphLaunch), exec, stream);
}

EXPORT Result cuGraphLaunch_ptsz(Exec exec, Stream stream) {
    return launch(REAL(Result(*)(Exec, Stream), cuGraphLaunch_ptsz), exec, stream);
}

EXPORT Result cuGraphUpload(Exec exec, Stream stream) {
    return launch(REAL(Result(*)(Exec, Stream), cuGraphUpload), exec, stream);
}

EXPORT Result cuGraphUpload_ptsz(Exec exec, Stream stream) {
    return launch(REAL(Result(*)(Exec, Stream), cuGraphUpload_ptsz), exec, stream);
}

EXPORT Result cuGraphExecDestroy(Exec exec) {
    Result (*driver)(Exec) = REAL(Result(*)(Exec), cuGraphExecDestroy);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (__atomic_load_n(&process->graph_gpus, __ATOMIC_RELAXED) == 0)
        return driver(exec);
    lock(&process->lock);
    Result result = driver(exec);
    for (int gpu = 0; result == 0 && gpu < process->limits.count; gpu++) {
        struct live *live = live_find(&process->lives, LIVE_EXEC, (uint64_t)exec + (uint64_t)gpu);
        if (live == NULL)
            continue;
        settle(process, gpu, live->device, 0);
        live_drop(&process->lives, live);
    }
    unlock(&process->lock);
    return result;
}

EXPORT Result cuDeviceGraphMemTrim(Device device) {
    struct process *process = here();
    int gpu = gpu_of(process, device);
    lock(&process->lock);
    Result result = trim(process, gpu, device);
    unlock(&process->lock);
    return result;
}
