/* Graphs that allocate: memory is taken at the first launch or upload and kept between launches. Trimming gives back what ended graphs had,
   and what a graph frees itself. */
#include "fake_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 64, MOST_CAPTURES = 16, MEM_ALLOC = 10, MEM_FREE = 11, CHILD = 4, KERNEL = 0, RESERVED_NOW = 2, USED_NOW = 0, MOST_KEPT = 1024 };
typedef struct { PoolProperties how; const void *access; size_t access_count, bytes; Pointer pointer; } AllocParams;
typedef struct { int type, reserved[3]; union { AllocParams alloc; void *graph; long long room[29]; }; long long last; } NodeParams;
typedef struct Graph Graph;
typedef struct { int type; AllocParams alloc; Graph *child; } Node;
struct Graph { int count; Node nodes[MOST_NODES]; };
typedef struct { uint64_t bytes; Device device; int is_backed, frees; } Exec;
static struct { void *stream; Graph *graph; } captures[MOST_CAPTURES];
static Exec *kept[MOST_KEPT]; /* those that hold memory */
static uint64_t reserved[MOST_CARDS];

static Node *add(Graph *graph, int type)
{
    if (graph->count == MOST_NODES)
        abort();
    Node *node = &graph->nodes[graph->count++];
    *node = (Node){ .type = type };
    return node;
}

static int add_alloc(Node **made, Graph *graph, AllocParams *wanted)
{
    if (card_of(wanted->how.location.id) < 0 || wanted->bytes == 0)
        return INVALID_VALUE;
    wanted->pointer = fresh_key(wanted->bytes);
    *made = add(graph, MEM_ALLOC);
    (*made)->alloc = *wanted;
    return OK;
}

API int cuGraphCreate(Graph **graph, unsigned flags) { CALL(); (void)flags; *graph = calloc(1, sizeof **graph); DONE(OK); }
API int cuGraphDestroy(Graph *graph) { CALL(); free(graph); DONE(OK); }
API int cuGraphAddMemAllocNode(Node **node, Graph *graph, void *after, size_t count, AllocParams *wanted)
{
    CALL();
    (void)after, (void)count;
    DONE(add_alloc(node, graph, wanted));
}
API int cuGraphAddChildGraphNode(Node **node, Graph *graph, void *after, size_t count, Graph *child)
{
    CALL();
    (void)after, (void)count;
    *node = add(graph, CHILD);
    (*node)->child = calloc(1, sizeof *child);
    *(*node)->child = *child;
    DONE(OK);
}
API int cuGraphAddMemFreeNode(Node **node, Graph *graph, void *after, size_t count, Pointer pointer)
{
    CALL();
    (void)after, (void)count, (void)pointer;
    *node = add(graph, MEM_FREE);
    DONE(OK);
}
static int add_node(Node **node, Graph *graph, NodeParams *wanted)
{
    if (wanted->type == MEM_ALLOC)
        return add_alloc(node, graph, &wanted->alloc);
    *node = add(graph, wanted->type);
    (*node)->child = wanted->type == CHILD ? wanted->graph : NULL;
    return OK;
}
API int cuGraphAddNode(Node **node, Graph *graph, void *after, size_t count, NodeParams *wanted) { CALL(); (void)after, (void)count; DONE(add_node(node, graph, wanted)); }
#ifndef FAKE_CUDA_OLD
API int cuGraphAddNode_v2(Node **node, Graph *graph, void *after, void *edges, size_t count, NodeParams *wanted)
{
    CALL();
    (void)after, (void)edges, (void)count;
    DONE(add_node(node, graph, wanted));
}
API int cuGraphAddNode_v3(Node **node, Graph *graph, void *after, void *edges, size_t count, NodeParams *wanted)
{
    CALL();
    (void)after, (void)edges, (void)count;
    DONE(add_node(node, graph, wanted));
}
#endif

API int cuGraphGetNodes(Graph *graph, Node **nodes, size_t *count)
{
    CALL();
    size_t room = nodes == NULL ? 0 : *count;
    for (size_t i = 0; i < room && i < (size_t)graph->count; i++)
        nodes[i] = &graph->nodes[i];
    *count = nodes == NULL || room > (size_t)graph->count ? (size_t)graph->count : room;
    return OK;
}
API int cuGraphNodeGetType(Node *node, int *type) { CALL(); *type = node->type; return OK; }
API int cuGraphMemAllocNodeGetParams(Node *node, AllocParams *into) { CALL(); *into = node->alloc; return OK; }
API int cuGraphChildGraphNodeGetGraph(Node *node, Graph **graph) { CALL(); *graph = node->child; return OK; }

static void sum(const Graph *graph, Exec *into)
{
    for (int i = 0; i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        if (node->type == MEM_ALLOC) {
            into->bytes += (node->alloc.bytes + PAGE - 1) / PAGE * PAGE;
            into->device = node->alloc.how.location.id;
        } else if (node->type == MEM_FREE)
            into->frees = 1;
        else if (node->type == CHILD && node->child != NULL)
            sum(node->child, into);
    }
}
static int instantiate(Exec **exec, Graph *graph)
{
    *exec = calloc(1, sizeof **exec);
    sum(graph, *exec);
    return OK;
}
API int cuGraphInstantiate(Exec **exec, Graph *graph, void *where, char *log, size_t size) { CALL(); (void)where, (void)log, (void)size; DONE(instantiate(exec, graph)); }
API int cuGraphInstantiate_v2(Exec **exec, Graph *graph, void *where, char *log, size_t size) { CALL(); (void)where, (void)log, (void)size; DONE(instantiate(exec, graph)); }
API int cuGraphInstantiateWithFlags(Exec **exec, Graph *graph, unsigned long long flags) { CALL(); (void)flags; DONE(instantiate(exec, graph)); }
API int cuGraphInstantiateWithParams(Exec **exec, Graph *graph, void *how) { CALL(); (void)how; DONE(instantiate(exec, graph)); }
API int cuGraphInstantiateWithParams_ptsz(Exec **exec, Graph *graph, void *how) { CALL(); (void)how; DONE(instantiate(exec, graph)); }

static int back(const char *function, Exec *exec)
{
    int card = card_of(exec->device), code = OK;
    pthread_mutex_lock(&door);
    if (exec->bytes > 0 && !exec->is_backed) {
        note("%s %llu", function, (unsigned long long)exec->bytes);
        code = truth_take(card, exec->bytes, card_bytes(card)) ? OK : OUT_OF_MEMORY;
        if (code == OK) {
            reserved[card] += exec->bytes;
            exec->is_backed = 1;
            for (int i = 0; i < MOST_KEPT; i++)
                if (kept[i] == NULL) {
                    kept[i] = exec;
                    break;
                }
        }
    }
    pthread_mutex_unlock(&door);
    return code;
}
API int cuGraphLaunch(Exec *exec, void *stream) { CALL(); (void)stream; DONE(back(__func__, exec)); }
API int cuGraphLaunch_ptsz(Exec *exec, void *stream) { CALL(); (void)stream; DONE(back(__func__, exec)); }
API int cuGraphUpload(Exec *exec, void *stream) { CALL(); (void)stream; DONE(back(__func__, exec)); }
API int cuGraphUpload_ptsz(Exec *exec, void *stream) { CALL(); (void)stream; DONE(back(__func__, exec)); }

/* What was launched is over at once here; a launch takes what was trimmed anew. */
API int cuDeviceGraphMemTrim(Device device)
{
    CALL();
    int card = card_of(device);
    if (card < 0)
        DONE(INVALID_DEVICE);
    uint64_t held = 0;
    pthread_mutex_lock(&door);
    for (int i = 0; i < MOST_KEPT; i++)
        if (kept[i] != NULL && card_of(kept[i]->device) == card) {
            if (!kept[i]->frees) {
                held += kept[i]->bytes;
                continue;
            }
            kept[i]->is_backed = 0;
            kept[i] = NULL;
        }
    truth_give(card, reserved[card] - held);
    reserved[card] = held;
    pthread_mutex_unlock(&door);
    DONE(OK);
}
API int cuGraphExecDestroy(Exec *exec)
{
    CALL();
    pthread_mutex_lock(&door);
    for (int i = 0; i < MOST_KEPT; i++)
        kept[i] = kept[i] == exec ? NULL : kept[i];
    pthread_mutex_unlock(&door);
    free(exec); /* its memory stays with the card's graph memory until that is trimmed */
    DONE(OK);
}
API int cuDeviceGetGraphMemAttribute(Device device, int attribute, void *value)
{
    CALL();
    if (card_of(device) < 0)
        return INVALID_DEVICE;
    uint64_t seen = attribute == RESERVED_NOW || attribute == USED_NOW ? reserved[card_of(device)] : 0;
    memcpy(value, &seen, sizeof seen);
    return OK;
}

bool graph_free(Pointer pointer) { (void)pointer; return false; }

static int capturing(void *stream)
{
    for (int i = 0; i < MOST_CAPTURES; i++)
        if (captures[i].graph != NULL && captures[i].stream == stream)
            return i;
    return -1;
}
int graph_capture(void *stream, uint64_t bytes, Pointer *key)
{
    int at = capturing(stream);
    Device device = 0;
    Node *made;
    if (at < 0)
        return -1;
    (void)current_device(&device);
    AllocParams wanted = { .how = { .location = { 1, device } }, .bytes = bytes };
    int code = add_alloc(&made, captures[at].graph, &wanted);
    *key = wanted.pointer;
    return code;
}
API int cuStreamBeginCapture_v2(void *stream, int mode)
{
    CALL();
    (void)mode;
    for (int i = 0; i < MOST_CAPTURES; i++)
        if (captures[i].graph == NULL) {
            captures[i].stream = stream;
            captures[i].graph = calloc(1, sizeof(Graph));
            DONE(OK);
        }
    DONE(OUT_OF_MEMORY);
}
API int cuStreamEndCapture(void *stream, Graph **graph)
{
    CALL();
    int at = capturing(stream);
    if (at < 0)
        DONE(INVALID_VALUE);
    *graph = captures[at].graph;
    captures[at].graph = NULL;
    DONE(OK);
}
API int cuStreamIsCapturing(void *stream, int *status) { CALL(); *status = capturing(stream) >= 0; return OK; }
API int cuStreamIsCapturing_ptsz(void *stream, int *status) { return cuStreamIsCapturing(stream, status); }
API int cuLaunchKernel(void) { return OK; }
API int cuLaunchKernel_ptsz(void) { return OK; }
