(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: domains that hit one point, and time, all at once. "hit D N": N hits and N / 100 times in each of D domains,
   which end then. Answers with the words that each has allocated, at most. *)
open Memprof_values

let requests = Point.create "requests"
let handling = Timer.create "handling"

let work n () =
  let before = Gc.minor_words () in
  for i = 1 to n do
    Point.hit requests;
    if i mod 100 = 0 then Timer.stop handling (Timer.start handling)
  done;
  Gc.minor_words () -. before

let rec serve () =
  match Handshake.command () with
  | [ "hit"; domains; n ] ->
    let spawned = List.init (int_of_string domains) (fun _ -> Domain.spawn (work (int_of_string n))) in
    let words = List.fold_left max 0.0 (List.map Domain.join spawned) in
    Printf.printf "{\"words\": %.0f}\n%!" words;
    serve ()
  | [ "exit" ] -> ()
  | other -> failwith (String.concat " " other)

let () =
  Handshake.ready ();
  serve ()
