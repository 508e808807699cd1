# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Poisson's equation on a square by conjugate gradients, for PETSc. Prints iterations and the norm of the solution."""

import sys

import petsc4py
petsc4py.init(sys.argv)
from petsc4py import PETSc  # noqa: E402

n = 120
matrix = PETSc.Mat().createAIJ([n * n, n * n], nnz=5)
first, last = matrix.getOwnershipRange()
for row in range(first, last):
    i, j = divmod(row, n)
    matrix[row, row] = 4
    for k, is_inside in ((row - n, i > 0), (row + n, i < n - 1), (row - 1, j > 0), (row + 1, j < n - 1)):
        if is_inside:
            matrix[row, k] = -1
matrix.assemble()
x, b = matrix.createVecs()
b.set(1.0)
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType('cg')
solver.getPC().setType('jacobi')
solver.setTolerances(rtol=1e-8)
for _ in range(5):
    x.set(0)
    solver.solve(b, x)
iterations, norm = solver.getIterationNumber(), x.norm()
if PETSc.COMM_WORLD.rank == 0:
    print(f'{iterations} iterations, norm {norm!r}')
