(* SPDX-License-Identifier: Apache-2.0 *)
(* One thread that works a little every millisecond, and always the same: an ordinary program
   beside others, some million words and a few percent of a processor a second.

   Commands: "stat" and "exit", both answered by {"requests":N,"errors":N}. *)

open Handshake.Checked_work

let pause_s = 0.001

let answer () = Printf.printf "{\"requests\":%d,\"errors\":%d}\n%!" !requests !errors

let rec serve () =
  match Handshake.poll_command ~patience_s:pause_s () with
  | None -> piece (); serve ()
  | Some [ "exit" ] -> answer ()
  | Some _ -> answer (); serve ()

let () =
  Handshake.ready ();
  serve ()
