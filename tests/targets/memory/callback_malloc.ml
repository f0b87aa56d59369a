(* SPDX-License-Identifier: Apache-2.0 *)
(* Bindings that call OCaml back for their arguments before they call a library, like libffi. "go N" calls each N times. *)

external call : (int -> unit) -> int -> int -> unit = "callback_malloc_call"
external put : int -> unit = "callback_malloc_put" [@@noalloc]
external take : int -> unit = "callback_malloc_take" [@@noalloc]

let[@inline never] write_argument n = put n
let[@inline never] fetch n = call write_argument n 4000
let[@inline never] write_deep n = if n > 0 then write_argument (n - 1); put n
let[@inline never] fetch_deep n = call write_deep n 2000

(* The library is called during a callback, without a note. *)
let[@inline never] write_and_take n = take n; put n
let[@inline never] fetch_inside n = call write_and_take n 0

let rec serve () =
  match Handshake.command () with
  | [ "go"; n ] ->
    for i = 1 to int_of_string n do fetch i; fetch_deep i; fetch_inside i done;
    Gc.minor ();
    print_endline "{}";
    serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
