(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: domains that use one point and one timer concurrently. "hit D N": D domains with N hits and N / 100 timings
   each, which then end; answers the largest number of words that one has allocated. "mark D N": D domains with N marks of
   two references each, which then end. "ends D": D successive domains that mark something; answers the words of the tag. *)
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

let marked = Tag.create "marked"
let kept = [| ref 1; ref 2 |]

let mark n () =
  for i = 1 to n do
    Tag.mark marked kept.(i mod 2);
    Tag.mark marked (ref i)
  done

let ended = Tag.create "ended"

let ends domains =
  for _ = 1 to domains do Domain.join (Domain.spawn (fun () -> Tag.mark ended (ref 0))) done;
  Obj.reachable_words (Obj.repr ended)

let in_domains domains f = List.map Domain.join (List.init domains (fun _ -> Domain.spawn f))

let rec serve () =
  match Handshake.command () with
  | [ "hit"; domains; n ] ->
    let words = List.fold_left max 0.0 (in_domains (int_of_string domains) (work (int_of_string n))) in
    Printf.printf "{\"words\": %.0f}\n%!" words;
    serve ()
  | [ "mark"; domains; n ] ->
    ignore (in_domains (int_of_string domains) (mark (int_of_string n)));
    Gc.full_major ();
    print_endline "{}";
    serve ()
  | [ "ends"; domains ] ->
    Printf.printf "{\"words\": %d}\n%!" (ends (int_of_string domains));
    serve ()
  | [ "exit" ] -> ()
  | other -> failwith (String.concat " " other)

let () =
  Handshake.ready ();
  serve ()
