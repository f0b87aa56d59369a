# SPDX-License-Identifier: Apache-2.0
"""The sections of make bench. Each module has run(context, section); the first line of its docstring is its title."""
