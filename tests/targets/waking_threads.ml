(* SPDX-License-Identifier: Apache-2.0 *)
(* Threads of which one allocates almost everything, in bursts between two waits, while another one
   wakes all the time and allocates a little.

   "go N" allocates in N bursts and answers the words of each site, headers included:

     {"sites":{"site_bursts":{"allocated_words":N},"site_wakes":{"allocated_words":N}}} *)

let blocks_a_burst = 5_000
let block_words = 4
let bursts = ref 0
let wakes = ref 0

let[@inline never] site_bursts () =
  for i = 1 to blocks_a_burst do
    ignore (Sys.opaque_identity (i, i, i))
  done;
  incr bursts

let[@inline never] site_wakes n =
  incr wakes;
  Sys.opaque_identity (n, n, n)

let rec wake () =
  Thread.delay 0.0005;
  ignore (site_wakes !wakes);
  wake ()

let answer () =
  Printf.printf
    "{\"sites\":{\"site_bursts\":{\"allocated_words\":%d},\"site_wakes\":{\"allocated_words\":%d}}}\n%!"
    (!bursts * blocks_a_burst * block_words) (!wakes * block_words)

let rec serve () =
  match Handshake.command () with
  | [ "go"; rounds ] ->
    for _ = 1 to int_of_string rounds do
      site_bursts ();
      Thread.delay 0.002
    done;
    answer ();
    serve ()
  | _ -> ()

let () =
  for _ = 1 to 3 do
    ignore (Thread.create wake ())
  done;
  Handshake.ready ();
  serve ();
  exit 0
