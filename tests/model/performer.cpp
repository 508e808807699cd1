// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

namespace lockstep::test {

std::string in_place(Strategy& strategy, Place place, FunctionRef<std::string()> body) {
  switch (place) {
    case Place::outside: break;
    case Place::scope: {
      const Scope scope = strategy.scope();
      return body();
    }
    case Place::merge_call:
      return strategy
          .run([&](ReplicaContext& replica) { return replica.merge_call([&](Strategy&) { return body(); }); })
          .component(0);
    case Place::update: {
      const auto devices = strategy.extended().non_slot_devices();
      return strategy.extended().update_non_slot(devices.first(1), body).component(0);
    }
  }
  return body();
}

Texts in_step(Strategy& strategy, FunctionRef<std::string(ReplicaContext&)> body) {
  const auto texts = strategy.run([&](ReplicaContext& replica) { return body(replica); });
  Texts result;
  for (int i = 0; i < texts.size(); ++i) result.push_back(texts.component(i));
  return result;
}

}  // namespace lockstep::test
