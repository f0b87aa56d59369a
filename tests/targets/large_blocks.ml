(* SPDX-License-Identifier: Apache-2.0 *)
(* Keeps large blocks of one site, and drops them:

     hold N BYTES   allocates N blocks of BYTES bytes and keeps them
     drop N         drops N of them, and collects *)

let held : Bytes.t list ref = ref []

let[@inline never] large_block bytes = Bytes.create bytes

let rec drop n = function
  | _ :: rest when n > 0 -> drop (n - 1) rest
  | blocks -> blocks

let answer () = Printf.printf "{\"held\":%d}\n%!" (List.length !held)

(* Waiting allocates, because sampling begins at a program's next allocation. *)
let rec serve () =
  match Handshake.poll_command ~patience_s:0.01 () with
  | None -> serve ()
  | Some command -> obey command

and obey = function
  | [ "hold"; n; bytes ] ->
    for _ = 1 to int_of_string n do held := large_block (int_of_string bytes) :: !held done;
    answer ();
    serve ()
  | [ "drop"; n ] ->
    held := drop (int_of_string n) !held;
    for _ = 1 to 3 do Gc.full_major () done;
    answer ();
    serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
