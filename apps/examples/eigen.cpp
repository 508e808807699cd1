// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrices and vectors of Eigen in collectives, without a copy: mpirun -n 2 example-eigen. A least-squares fit of a
// quadratic to points of which each rank has a share: the ranks add their normal equations, and all solve them.

#include <lockstep/interop/eigen.hpp>
#include <lockstep/lockstep.hpp>

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <cstdio>

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const lockstep::Communicator comm = lockstep::world_communicator();
  const int rank = comm.rank();
  const int size = comm.size();
  const bool prints = rank == 0;

  // this rank's points: y = 1 - 2 x + 3 x^2
  constexpr Eigen::Index points = 100;
  const Eigen::VectorXd x = Eigen::VectorXd::LinSpaced(points, rank, rank + 1) / size;
  const Eigen::VectorXd y = 1 - 2 * x.array() + 3 * x.array().square();
  Eigen::MatrixXd powers(points, 3);
  powers << Eigen::VectorXd::Ones(points), x, x.cwiseAbs2();

  // a view refers to elements in memory, so the products are evaluated to matrices
  Eigen::MatrixXd gram = powers.transpose() * powers;
  Eigen::VectorXd right = powers.transpose() * y;
  comm.all_reduce(lockstep::view_of(gram), lockstep::ReduceOp::sum);
  comm.all_reduce(lockstep::view_of(right), lockstep::ReduceOp::sum);
  const Eigen::Vector3d fit = gram.ldlt().solve(right);
  if (prints) std::printf("y = %.3f %+.3f x %+.3f x^2\n", fit[0], fit[1], fit[2]);

  // Column r is that of rank r. The elements of a column are contiguous; view_of refuses a row of this matrix.
  Eigen::MatrixXd ends(2, size);
  const Eigen::Vector2d own(x[0], x[points - 1]);
  comm.all_gather(lockstep::view_of(own), lockstep::view_of(ends));
  for (int r = 0; prints && r < size; ++r) std::printf("rank %d: x from %.2f to %.2f\n", r, ends(0, r), ends(1, r));
}
