// The C functions that Python calls. Each that returns an int gives 0, or 1 with a message in regard_error.
//
// native_stepper.py calls them through ctypes and has the structs Shape and Tensor of model.h.
#pragma once

#include <cstdint>

#include "session.h"

#if defined(_WIN32)
#define EXPORTED extern "C" __declspec(dllexport)
#else
#define EXPORTED extern "C" __attribute__((visibility("default")))
#endif

// A model and the threads that all of its sessions share.
struct RegardModel;

// Tells builds apart whose functions or structs differ: native_stepper.py expects the same number.
EXPORTED int32_t regard_interface();

// The message of the last call of this thread that failed.
EXPORTED const char* regard_error();

// The name of the processor level that is used: the best one, or the wanted one. Null if there is none.
EXPORTED const char* regard_level(const char* wanted);

// Tensors without data are read one at a time, so that not all of them are in memory twice.
EXPORTED int regard_model_new(const regard::Shape* shape, const regard::Tensor* tensors, int count, regard::Read read,
                              int threads, const char* level, RegardModel** model);
EXPORTED void regard_model_delete(RegardModel* model);

EXPORTED int regard_session_new(const RegardModel* model, regard::Session** session);
EXPORTED void regard_session_delete(regard::Session* session);
EXPORTED int regard_session_rows(regard::Session* session);

// Sequences are given as ids one after the other, and lengths. `rows` is the number of rows for which the caller has
// made room: another thread may have changed it. Ids and rows have 64 bits, like those of numpy.
EXPORTED int regard_session_admit(regard::Session* session, int rows, const int64_t* prefixes,
                                  const int64_t* prefix_lengths, int sources, const int64_t* source_ids,
                                  const int64_t* source_lengths);
EXPORTED int regard_session_step(regard::Session* session, const int64_t* ids, int rows, float* hidden);
EXPORTED int regard_session_choose(regard::Session* session, int rows, int best, const int64_t* banned_rows,
                                   const int64_t* banned_ids, int banned, int64_t* ids, float* log_probabilities);
EXPORTED int regard_session_logits(regard::Session* session, int rows, const int64_t* banned_rows,
                                   const int64_t* banned_ids, int banned, float* logits, float* log_probabilities);
EXPORTED int regard_session_reorder(regard::Session* session, const int64_t* rows, int count);
EXPORTED int regard_session_encode(regard::Session* session, int sources, const int64_t* ids,
                                   const int64_t* lengths, float* vectors);
