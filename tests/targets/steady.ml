(* SPDX-License-Identifier: Apache-2.0 *)
(* One thread that does the same small work every millisecond: an ordinary program
   beside others, with some million words per second and a few percent of a processor.

   Commands: "stat" and "exit", both answer {"requests":N,"errors":N}. *)

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
