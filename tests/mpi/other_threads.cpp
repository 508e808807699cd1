// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests and communicators on threads other than the main thread, at MPI_THREAD_SINGLE and MPI_THREAD_FUNNELED: by
// MPI's profiling interface, no such thread calls MPI, and no operation is lost. Prints a line and exits with 1 for
// each rule that is broken.

#include <lockstep/interop/mpi.hpp>
#include <lockstep/lockstep.hpp>

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

const std::thread::id main_thread = std::this_thread::get_id();
std::atomic<int> broken_rules{0};

void note_call(const char* name) {
  if (std::this_thread::get_id() == main_thread) return;
  ++broken_rules;
  std::printf("%s was called by another thread than the main thread\n", name);
}

void expect(bool is_kept, const char* rule) {
  if (is_kept) return;
  ++broken_rules;
  std::printf("broken rule: %s\n", rule);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are parameter lists
#define WATCHED(name, parameters, arguments) \
  extern "C" int MPI_##name parameters {     \
    note_call("MPI_" #name);                 \
    return PMPI_##name arguments;            \
  }
WATCHED(Isend, (const void* a, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r), (a, n, t, d, g, c, r))
WATCHED(Irecv, (void* a, int n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Request* r), (a, n, t, s, g, c, r))
WATCHED(Recv, (void* a, int n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Status* u), (a, n, t, s, g, c, u))
WATCHED(Iprobe, (int s, int g, MPI_Comm c, int* f, MPI_Status* u), (s, g, c, f, u))
WATCHED(Improbe, (int s, int g, MPI_Comm c, int* f, MPI_Message* m, MPI_Status* u), (s, g, c, f, m, u))
WATCHED(Test, (MPI_Request * a, int* b, MPI_Status* c), (a, b, c))
WATCHED(Testsome, (int n, MPI_Request a[], int* b, int c[], MPI_Status d[]), (n, a, b, c, d))
WATCHED(Cancel, (MPI_Request * a), (a))
WATCHED(Comm_free, (MPI_Comm * a), (a))
#undef WATCHED
// NOLINTEND(bugprone-macro-parentheses)

namespace {

using lockstep::Code;
using lockstep::Communicator;
using lockstep::Error;
using lockstep::ReduceOp;
using lockstep::Request;

template <class Body>
void on_another_thread(const Body& body) {
  std::jthread(body).join();
}

/// Whether `call` throws the error of a thread that may not call MPI.
template <class Call>
bool is_refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == Code::failed_precondition &&
        std::string(error.what()).find("only the main thread may") != std::string::npos)
      return true;
    std::printf("another error: %s\n", error.what());
  }
  return false;
}

void wait_on_another_thread(const Communicator& communicator) {
  std::vector<float> values(1000, 1.0F);
  Request request = communicator.all_reduce_async(values, ReduceOp::sum);
  on_another_thread([&] {
    expect(is_refused([&] { request.wait(); }), "wait() is refused");
    expect(is_refused([&] { static_cast<void>(request.test()); }), "test() is refused");
    expect(is_refused([&] { static_cast<void>(request.wait_for(std::chrono::seconds(1))); }), "wait_for() is refused");
    expect(is_refused([&] { communicator.barrier(); }), "a call is refused");
  });
  communicator.barrier();
  on_another_thread([&] { request.wait(); });  // the operation is complete
  expect(values[999] == 2.0F, "the request is unchanged after wait() was refused");
}

/// Requests that are complete are waited for on another thread while others are under way.
void wait_for_complete_requests_on_another_thread(const Communicator& communicator) {
  constexpr int count = 40;
  std::vector<std::vector<float>> values(count, std::vector<float>(1000, 1.0F));
  std::vector<Request> requests;
  for (std::vector<float>& each : values) requests.push_back(communicator.all_reduce_async(each, ReduceOp::sum));
  communicator.barrier();
  std::vector<float> late(1000, 1.0F);
  Request under_way = communicator.all_reduce_async(late, ReduceOp::sum);
  on_another_thread([&] {
    for (Request& each : requests) each.wait();
  });
  under_way.wait();
  expect(values[count - 1][999] == 2.0F && late[999] == 2.0F, "operations are complete");
}

void release_plan_on_another_thread(const Communicator& communicator) {
  std::vector<float> values(1000, 1.0F);
  lockstep::Plan plan = communicator.prepare_all_reduce(values, ReduceOp::sum);
  for (int round = 0; round < 3; ++round) {
    std::optional<Request> request(plan.run_async());
    on_another_thread([&] { request.reset(); });
    communicator.barrier();
    plan.run();  // its previous run is complete
  }
  expect(values[999] == 64.0F, "a plan can be run again after its request was destroyed on another thread");
}

void destroy_request_on_another_thread(const Communicator& communicator) {
  std::vector<float> values(1000, 1.0F);
  std::optional<Request> request(communicator.all_reduce_async(values, ReduceOp::sum));
  on_another_thread([&] { request.reset(); });
  communicator.barrier();
  expect(values[999] == 2.0F, "the operation of a destroyed request completes");
}

void refuse_message_on_another_thread(const Communicator& communicator) {
  const int other = 1 - communicator.rank();
  on_another_thread([&] {
    bool is_invalid = false;
    try {
      communicator.send(lockstep::ConstTensorView(nullptr, lockstep::DType::f32, lockstep::Shape{4}), other);
    } catch (const Error& error) {
      is_invalid = error.code() == Code::invalid_argument;
    }
    expect(is_invalid, "a send of no memory is an error");
  });
  float sent = 3;
  float received = 0;
  Request request = communicator.send_async(std::span<const float>(&sent, 1), other);
  communicator.recv(std::span(&received, 1), other);
  request.wait();
  expect(received == 3.0F, "a send that was refused on another thread has no number");
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_single = argc > 1 && std::string(argv[1]) == "single";
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, is_single ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED, &level);
  if (level > MPI_THREAD_FUNNELED) {
    std::printf("skipped: MPI provides more than MPI_THREAD_FUNNELED\n");
    MPI_Finalize();
    return 77;
  }
  std::vector<float> values(1000, 1.0F);
  {
    const lockstep::Environment environment(argc, argv);
    const Communicator communicator = lockstep::world_communicator();
    wait_on_another_thread(communicator);
    wait_for_complete_requests_on_another_thread(communicator);
    release_plan_on_another_thread(communicator);
    destroy_request_on_another_thread(communicator);
    refuse_message_on_another_thread(communicator);
    std::optional<Communicator> without_operations(communicator.duplicate({}));
    on_another_thread([&] { without_operations.reset(); });
    std::optional<Communicator> other(communicator.duplicate({}));
    std::optional<Request> request(other->all_reduce_async(values, ReduceOp::sum));
    on_another_thread([&] {
      request.reset();
      other.reset();
    });
    communicator.barrier();
  }
  MPI_Finalize();
  expect(values[999] == 2.0F, "the operations of a communicator that another thread has destroyed complete");
  return broken_rules == 0 ? 0 : 1;
}
