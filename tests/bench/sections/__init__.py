# SPDX-License-Identifier: Apache-2.0
"""What make bench measures. Each module has run(context, section), and says in its first line what it is."""
