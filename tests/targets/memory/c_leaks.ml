(* SPDX-License-Identifier: Apache-2.0 *)
(* Leaks memory of C libraries. "zlib N", "bigarrays N" and "ssl N" keep N streams of zlib, Bigarrays of 100,000 bytes and
   contexts of OpenSSL, each from a separate line. Each answers the bytes that malloc has handed out for the command. *)

external taken : unit -> int = "c_leaks_taken"
external deflate_init : unit -> int = "c_leaks_deflate_init"

let streams = ref []
let arrays = ref []
let contexts = ref []

let[@inline never] open_stream () = streams := deflate_init () :: !streams
let[@inline never] make_array () = arrays := Bigarray.Array1.create Bigarray.char Bigarray.c_layout 100_000 :: !arrays
let[@inline never] make_context () = contexts := Ssl.create_context Ssl.SSLv23 Ssl.Client_context :: !contexts

let run what n =
  let before = taken () in
  for _ = 1 to n do what () done;
  Printf.printf "%d\n%!" (taken () - before)

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "zlib"; n ] -> run open_stream (int_of_string n); serve ()
  | [ "bigarrays"; n ] -> run make_array (int_of_string n); serve ()
  | [ "ssl"; n ] -> run make_context (int_of_string n); serve ()
  | _ -> Gc.minor (); print_endline "0"; serve ()

let () =
  Ssl.init ();
  make_context (); (* so that the library's one-time setup is done *)
  Handshake.ready ();
  serve ()
