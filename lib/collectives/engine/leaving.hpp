// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a rank's part in a communicator, and what the other ranks get to know of it.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/epoch.hpp"
#include "collectives/engine/operation_queue.hpp"
#include "transport/transport.hpp"

#include <string>
#include <string_view>

namespace lockstep::detail {

/// Not thread-safe: called under the engine's lock.
class Leaving {
 public:
  /// All references must outlive this object.
  Leaving(Transport& transport, ControlChannel& control, const Agreement& agreement, const OperationQueue& queue,
          Epoch& epoch)
      : transport_(transport), control_(control), agreement_(agreement), queue_(queue), epoch_(epoch) {}

  /// Tells the other ranks that this rank takes part in no further operation, and why. Departure::by_exception: because
  /// of an exception that they do not know of.
  void depart(Departure how) noexcept;
  /// Ends the present epoch, and the communicator, on all ranks, if messages can still be sent. `text`: the reason.
  void end_for_ever(std::string_view text) noexcept;

 private:
  void send_leave(std::string_view what) noexcept;

  Transport& transport_;
  ControlChannel& control_;
  const Agreement& agreement_;
  const OperationQueue& queue_;
  Epoch& epoch_;
};

/// Tells the other ranks, which may wait in the first operation of the communicator `name`, that this rank cannot
/// create it: `reason`. For a transport without an engine.
void leave_before_begin(Transport& transport, std::string_view name, std::string_view reason) noexcept;

}  // namespace lockstep::detail
