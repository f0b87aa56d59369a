(* SPDX-License-Identifier: Apache-2.0 *)
(* Resizes its minor heap continuously, so that it moves up and down in the address space, and works a little in
   each. It checks every piece of work, and that the limit of allocations is never below the minor heap.

   Commands: "block" and "unblock" (SIGURG), "stat" and "exit". All answer
   {"requests":N,"errors":N,"moved_up":N,"woken":N}: pieces of work, wrong ones, moves up, and writes
   of others to the limit. *)

external prepare : unit -> unit = "minor_heaps_prepare"
external fence : unit -> unit = "minor_heaps_fence"
external watch : int -> unit = "minor_heaps_watch" [@@noalloc]
external woken : unit -> int = "minor_heaps_woken" [@@noalloc]
external moved_up : unit -> int = "minor_heaps_moved_up" [@@noalloc]

open Handshake.Checked_work

let pieces_a_command = 20
let looks = 300_000
let small = 8_192

let resize words =
  Gc.set { (Gc.get ()) with minor_heap_size = words };
  watch looks;
  piece ();
  watch looks

(* OCaml 5 has all minor heaps in one area, which moves if they must grow beyond their maximum so far. A step grows
   the area by 4 MiB, which is more than its alignment leaves free beside it. *)
let is_ocaml5 = Sys.ocaml_version >= "5"
let step_words = 4_096
let largest = ref 262_144
let limit_of_largest = 1 lsl 26

let grow () =
  if !largest < limit_of_largest then largest := !largest + step_words;
  fence ();
  resize !largest

let move () =
  if is_ocaml5 then grow ()
  else begin
    resize (4 * small);
    resize small
  end

let answer () =
  Printf.printf "{\"requests\":%d,\"errors\":%d,\"moved_up\":%d,\"woken\":%d}\n%!" !requests !errors
    (moved_up ()) (woken ())

let mask how =
  ignore (Unix.sigprocmask how [ Sys.sigurg ]);
  answer ()

let rec serve () =
  for _ = 1 to pieces_a_command do move () done;
  match Handshake.poll_command () with
  | None -> serve ()
  | Some [ "exit" ] -> answer ()
  | Some [ "block" ] -> mask Unix.SIG_BLOCK; serve ()
  | Some [ "unblock" ] -> mask Unix.SIG_UNBLOCK; serve ()
  | Some _ -> answer (); serve ()

let () =
  prepare ();
  Handshake.ready ();
  serve ()
