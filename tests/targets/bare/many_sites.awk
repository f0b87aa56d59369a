# SPDX-License-Identifier: Apache-2.0
# Writes a program that allocates at 10,000 sites, 100 in each of 100 modules, for tests
# that need so many: part_00.ml ... part_99.ml and many_sites.ml in the folder
# `out`.
#
# Site i allocates arrays of 20 to 219 words, header included. If i is even, the site's
# last array stays alive. A single module for all sites would take minutes to compile.
#
#   go ROUNDS   every site allocates once per round; answers "done"
#   full        a full collection; answers "done"
#   exit
BEGIN {
	for (m = 0; m < 100; ++m) {
		file = sprintf("%s/part_%02d.ml", out, m)
		print "let live = Array.make 100 [||]" > file
		for (s = 0; s < 100; ++s) {
			i = 100 * m + s
			array = sprintf("Array.make %d %d", 19 + (i * 7) % 200, i)
			keep = i % 2 == 0 ? sprintf("live.(%d) <- %s", s, array) : sprintf("ignore (Sys.opaque_identity (%s))", array)
			printf "let[@inline never] site_%04d () =\n  %s\n", i, keep > file
		}
		print "let[@inline never] all () =" > file
		for (s = 0; s < 100; ++s) printf "  site_%04d ();\n", 100 * m + s > file
		print "  ()" > file
		close(file)
	}
	file = out "/many_sites.ml"
	print "let[@inline never] round () =" > file
	for (m = 0; m < 100; ++m) printf "  Part_%02d.all ();\n", m > file
	print "  ()\nlet rec serve () =" > file
	print "  match Handshake.command () with" > file
	print "  | [ \"exit\" ] -> ()" > file
	print "  | [ \"go\"; rounds ] ->" > file
	print "    for _ = 1 to int_of_string rounds do round () done;" > file
	print "    print_endline \"done\"; serve ()" > file
	print "  | [ \"full\" ] -> Gc.full_major (); print_endline \"done\"; serve ()" > file
	print "  | _ -> print_endline \"unknown command\"; serve ()" > file
	print "let () = Handshake.ready (); serve ()" > file
}
