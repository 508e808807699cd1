// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/operations.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

class Staged final : public Operation {
 public:
  Staged(const Descriptor& descriptor, std::shared_ptr<Operation> inner, std::unique_ptr<HostCopies> copies)
      : Operation(descriptor), copies_(std::move(copies)), inner_(std::move(inner)) {}

  void arrive(std::uint64_t tag, Arrival& arrival) override { inner_->arrive(tag, arrival); }
  CarriedData* carried() noexcept override { return inner_->carried(); }
  void start(Transport& transport, Workspace& workspace) override { inner_->start(transport, workspace); }
  bool advance(Transport& transport, Workspace& workspace) override {
    if (!hosts_are_done_) {
      if (!inner_->advance(transport, workspace)) return false;
      hosts_are_done_ = true;
      if (inner_->failure() == nullptr) copies_->deliver();
    }
    return copies_->is_done();
  }
  const Failure* failure() const noexcept override { return inner_->failure(); }
  DataProgress progress(const Transport& transport) const noexcept override { return inner_->progress(transport); }
  std::vector<int> awaited_ranks() const override {
    return hosts_are_done_ ? std::vector<int>{} : inner_->awaited_ranks();
  }
  bool abandon(Transport& transport) noexcept override { return !hosts_are_done_ && inner_->abandon(transport); }
  bool survives_faults() const noexcept override { return hosts_are_done_ || inner_->survives_faults(); }

 private:
  std::unique_ptr<HostCopies> copies_;
  std::shared_ptr<Operation> inner_;  // uses copies_
  bool hosts_are_done_ = false;
};

}  // namespace

std::shared_ptr<Operation> make_staged(const Descriptor& descriptor, std::shared_ptr<Operation> inner,
                                       std::unique_ptr<HostCopies> copies) {
  return std::make_shared<Staged>(descriptor, std::move(inner), std::move(copies));
}

}  // namespace lockstep::detail
