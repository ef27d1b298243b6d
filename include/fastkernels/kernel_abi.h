/* The boundary between fastkernels and a candidate's shared object: plain C, versioned, checked at load.
 *
 * Candidates never see this file directly; fastkernels/candidate.h puts classes around it. It includes nothing but
 * fixed-width integers, so that a candidate compiles in a moment. */
#ifndef FASTKERNELS_KERNEL_ABI_H
#define FASTKERNELS_KERNEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define FK_ABI_VERSION 4
#define FK_ABI_MAX_RANK 5

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { FK_CPU = 0, FK_CUDA = 1 } fk_device;

/* A strided window on memory the host owns; `data` is null where an optional argument is absent. Strides count
 * elements. dtype numbers are those of fk::DType. */
typedef struct {
  void* data;
  int32_t dtype;
  int32_t rank;
  int64_t shape[FK_ABI_MAX_RANK];
  int64_t stride[FK_ABI_MAX_RANK];
  int32_t present;
  int32_t device; /* fk_device: where `data` can be read */
} fk_view;

typedef enum { FK_BOOL = 0, FK_INTEGER = 1, FK_REAL = 2, FK_TEXT = 3, FK_INTEGERS = 4, FK_FIELDS = 5 } fk_field_kind;

/* A constructor argument by name. */
typedef struct fk_field {
  const char* name;
  int32_t kind;
  int64_t integer; /* FK_BOOL, FK_INTEGER; the count of FK_INTEGERS and FK_FIELDS; the number of a dtype in FK_TEXT */
  double real;
  const char* text;
  const int64_t* integers;
  const struct fk_field* fields;
} fk_field;

/* One kind of sequences of a batch, decoding or prefilling. */
typedef struct {
  int64_t num_sequences;
  int64_t num_tokens;
  fk_view cu_seqlens_q; /* i32 [S+1] */
  fk_view cu_seqlens_k; /* i32 [S+1] */
  fk_view seq_lens;     /* i32 [S] */
  fk_view block_table;  /* i32 [S, blocks] */
  fk_view state_slots;  /* i32 [S]: of the per-sequence states; negative: the row is no sequence */
} fk_sequence_group;

typedef struct {
  fk_sequence_group decode;
  fk_sequence_group prefill;
  fk_view slot_mapping; /* i64 [T] */
} fk_attention_metadata;

typedef enum { FK_PER_TOKEN = 0, FK_PER_SEQUENCE = 1, FK_PER_SEQUENCE_FIXED = 2 } fk_state_kind;

/* Something the operator, or one below it, keeps between calls: it may be read and written. Per token [blocks, page
 * size, ...], reached through block_table and slot_mapping; per sequence [slots, ...], through state_slots. */
typedef struct {
  const char* name; /* relative to the operator: "attn.key_cache" */
  int32_t kind;     /* fk_state_kind */
  fk_view view;
} fk_state;

/* What a call carries beside its arguments. `host` is the host's, handed back to its functions. */
typedef struct {
  void* host;
  int32_t threads;
  /* Runs body(user, begin, end) over 0 .. n-1 in chunks of `grain` on the host's threads; returns when all are done. */
  void (*parallel_for)(void* host, int64_t n, int64_t grain, void (*body)(void* user, int64_t begin, int64_t end),
                       void* user);
  /* 64-byte aligned memory of the device that lives until forward returns, and on CUDA until the work queued on the
   * stream is done; null inside parallel_for and where there is none left. */
  void* (*scratch)(void* host, size_t bytes);
  /* Where the call runs. On CUDA everything goes to `stream` (a cudaStream_t), in order; on the CPU it is null. */
  int32_t device;
  void* stream;
  /* The batch, for operators of level 2 and above and those that keep states; null where the call has none. */
  const fk_attention_metadata* attention;
  /* The states of the operator and of all below it, its own first, then those of its parts in order. */
  const fk_state* states;
  int64_t num_states;
  /* Computes this call's outputs and states as the operator's reference does: right and slow. CPU only, and not inside
   * parallel_for. Returns 0, or FK_FAILED after writing a sentence to `error`. */
  int (*reference)(void* host, char* error, size_t error_size);
} fk_context;

#define FK_FAILED 1
#define FK_OUT_OF_MEMORY 2

/* Functions return 0, or one of the above after writing a sentence to `error`. Nothing may be thrown through them. */
typedef struct {
  uint32_t abi_version;
  uint32_t size; /* of this struct */
  const char* operator_name;
  const char* signature; /* of forward, as the header this candidate was compiled against had it */
  int (*create)(const fk_field* init, size_t fields, void** object, char* error, size_t error_size);
  void (*destroy)(void* object);
  int (*bind)(void* object, const char* const* names, const fk_view* params, size_t n, char* error, size_t error_size);
  /* Returns null or a sentence. Itself null where the candidate takes every call. */
  const char* (*refuse)(void* object, const fk_view* args, size_t n);
  int (*forward)(void* object, const fk_context* context, const fk_view* args, size_t n, char* error,
                 size_t error_size);
} fk_candidate;

/* The one symbol a candidate exports. */
__attribute__((visibility("default"))) const fk_candidate* fk_candidate_entry(void);

#ifdef __cplusplus
}
#endif
#endif
