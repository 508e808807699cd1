// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A fake NCCL library: it records each call, and always returns ncclInProgress. Built several times, as the version
// FAKE_VERSION, and with one of the functions renamed.

#include <nccl.h>

#include <string>

namespace {

std::string last_call;
ncclComm_t* place = nullptr;  // the variable passed with the last request for a communicator

// the object that every communicator points to
int something = 0;

ncclResult_t note(const std::string& text) {
  last_call = text;
  return ncclInProgress;
}

std::string words(const char* name, std::size_t count, ncclDataType_t type, int more = -1, int root = -1) {
  std::string text = std::string(name) + " of " + std::to_string(count) + " of type " + std::to_string(type);
  if (more >= 0) text += ", " + std::to_string(more);
  if (root >= 0) text += ", " + std::to_string(root);
  return text;
}

}  // namespace

extern "C" {

// interface for the tests
const char* fake_nccl_last_call() { return last_call.c_str(); }

ncclResult_t ncclGetVersion(int* version) {
  *version = FAKE_VERSION;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  for (int k = 0; k < NCCL_UNIQUE_ID_BYTES; ++k) id->internal[k] = static_cast<char>(k);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  place = comm;
  *comm = reinterpret_cast<ncclComm_t>(&something);
  return note("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ", id ends with " +
              std::to_string(id.internal[NCCL_UNIQUE_ID_BYTES - 1]) + ", blocking " + std::to_string(config->blocking));
}

// Like NCCL's own thread: when the communicator is ready, it is written a second time.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *place = comm;
  *error = ncclRemoteError;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return note("CommFinalize"); }
ncclResult_t ncclCommDestroy(ncclComm_t) { return note("CommDestroy"); }
ncclResult_t ncclCommAbort(ncclComm_t) { return note("CommAbort"); }
const char* ncclGetErrorString(ncclResult_t) { return "an error string"; }
const char* ncclGetLastError(ncclComm_t comm) { return comm == nullptr ? nullptr : "a last error"; }
ncclResult_t ncclGroupStart() { return note("GroupStart"); }
ncclResult_t ncclGroupEnd() { return note("GroupEnd"); }

ncclResult_t ncclAllReduce(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t,
                           cudaStream_t) {
  return note(words("AllReduce", count, type, op));
}
ncclResult_t ncclReduce(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t,
                        cudaStream_t) {
  return note(words("Reduce", count, type, op, root));
}
ncclResult_t ncclBroadcast(const void*, void*, size_t count, ncclDataType_t type, int root, ncclComm_t, cudaStream_t) {
  return note(words("Broadcast", count, type, root));
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t,
                               cudaStream_t) {
  return note(words("ReduceScatter", count, type, op));
}
ncclResult_t ncclAllGather(const void*, void*, size_t count, ncclDataType_t type, ncclComm_t, cudaStream_t) {
  return note(words("AllGather", count, type));
}
ncclResult_t ncclSend(const void*, size_t count, ncclDataType_t type, int peer, ncclComm_t, cudaStream_t) {
  return note(words("Send", count, type, peer));
}
ncclResult_t ncclRecv(void*, size_t count, ncclDataType_t type, int peer, ncclComm_t, cudaStream_t) {
  return note(words("Recv", count, type, peer));
}

}  // extern "C"
