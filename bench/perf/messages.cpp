// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/messages.hpp"

#include <cstddef>
#include <utility>

namespace perf {
namespace {

constexpr int tag = 0;

int steps_of(Collective collective) noexcept { return collective == Collective::halo ? 1 : 2; }

bool sends_in(int step, Collective collective, const Job& job) noexcept {
  return collective == Collective::halo || job.is_first_of_pair() == (step == 0);
}

bool receives_in(int step, Collective collective, const Job& job) noexcept {
  return collective == Collective::halo || !sends_in(step, collective, job);
}

}  // namespace

OurMessage::OurMessage(const Case& what, const Job& job, const Buffers& buffers, const Options& options,
                       lockstep::Communicator communicator)
    : Call(what, job, buffers, values_of(options)), communicator_(std::move(communicator)) {
  for (const Region& input : inputs()) input_views_.emplace_back(input.view(what.dtype));
  for (const Region& output : outputs()) output_views_.push_back(output.view(what.dtype));
}

void OurMessage::run() {
  if (!job().has_partner()) return;
  for (int step = 0; step < steps(); ++step) {
    if (sends_in(step, what().collective, job())) {
      communicator_.send(input_views_, job().partner());
    } else {
      communicator_.recv(output_views_, job().partner());
    }
  }
}

int OurMessage::steps() const noexcept { return steps_of(what().collective); }

void OurMessage::post(int step, std::vector<lockstep::Request>& requests) {
  if (!job().has_partner()) return;
  if (receives_in(step, what().collective, job())) {
    requests.push_back(communicator_.recv_async(output_views_, job().partner()));
  }
  if (sends_in(step, what().collective, job())) {
    requests.push_back(communicator_.send_async(input_views_, job().partner()));
  }
}

void OurMessage::wait_all(std::vector<lockstep::Request>& requests) {
  for (lockstep::Request& request : requests) request.wait();
}

MpiMessage::MpiMessage(const PeerCall& call, const Job& job, const Buffers& buffers, MPI_Comm comm)
    : Call(call.what, job, buffers, Values::mixed), comm_(comm), dtype_(call.mpi_dtype) {}

void MpiMessage::run() {
  if (!job().has_partner()) return;
  for (int step = 0; step < steps(); ++step) {
    if (sends_in(step, what().collective, job())) {
      for (const Region& input : inputs()) MPI_Send(input.data(), elements(input), dtype_, job().partner(), tag, comm_);
    } else {
      for (const Region& output : outputs())
        MPI_Recv(output.data(), elements(output), dtype_, job().partner(), tag, comm_, MPI_STATUS_IGNORE);
    }
  }
}

int MpiMessage::steps() const noexcept { return steps_of(what().collective); }

void MpiMessage::post(int step, std::vector<MPI_Request>& requests) {
  if (!job().has_partner()) return;
  const auto add = [&](const auto& begin, const Region& tensor) {
    MPI_Request request = MPI_REQUEST_NULL;
    begin(tensor.data(), elements(tensor), dtype_, job().partner(), tag, comm_, &request);
    requests.push_back(request);
  };
  if (receives_in(step, what().collective, job())) {
    for (const Region& output : outputs()) add(MPI_Irecv, output);
  }
  if (sends_in(step, what().collective, job())) {
    for (const Region& input : inputs()) add(MPI_Isend, input);
  }
}

void MpiMessage::wait_all(std::vector<MPI_Request>& requests) {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

int MpiMessage::elements(const Region& tensor) const {
  return static_cast<int>(tensor.size() / lockstep::size_of(what().dtype));
}

}  // namespace perf
