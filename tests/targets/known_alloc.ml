(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocates an exactly known number of words at each site, headers included.

   Commands, each of which answers one line of JSON with the allocations so far:
     go ROUNDS   allocates; it answers after every block that should survive
                 has been promoted
     minor, full run a collection
     drop        drops the blocks that site_live keeps
     stat        only answers
     quiet       a minor collection; answers {}, and allocates a few dozen words
     exit

   In one round:
     site           blocks   words each (header included)   afterwards
     site_small     250,000  4                              dead at once
     site_live      200,000  5                              live, replace the former ones
     site_major       1,000  1,001 (major heap)             dead at once
     site_bytes      80,000  14 (allocated by C)            dead at once
     site_promoted  100,000  4                              promoted, then dropped
     site_unmarshal     100  3,000 (unmarshalled list)      dead at once *)

let small_blocks = 250_000
let live_blocks = 200_000
let major_blocks = 1_000
let bytes_blocks = 80_000
let promoted_blocks = 100_000
let lists = 100
let list_length = 1_000

(* The arrays that keep blocks are allocated before the program is ready. *)
let nothing = (0, 0, 0, 0)
let live = Array.make live_blocks nothing
let survivors = Array.make promoted_blocks (0, 0, 0)

external unmarshal : bytes -> int -> int list = "caml_input_value_from_bytes"

let marshalled = Marshal.to_bytes (List.init list_length (fun i -> i)) []

let[@inline never] site_small () =
  for i = 1 to small_blocks do
    ignore (Sys.opaque_identity (i, i + 1, i + 2))
  done

let[@inline never] site_live () =
  for i = 0 to live_blocks - 1 do
    live.(i) <- (i, i + 1, i + 2, i + 3)
  done

let[@inline never] site_major () =
  for i = 1 to major_blocks do
    ignore (Sys.opaque_identity (Array.make 1_000 i))
  done

let[@inline never] site_bytes () =
  for _ = 1 to bytes_blocks do
    ignore (Sys.opaque_identity (Bytes.create 100))
  done

let[@inline never] site_promoted () =
  for i = 0 to promoted_blocks - 1 do
    survivors.(i) <- (i, i + 1, i + 2)
  done

let[@inline never] site_unmarshal () =
  for _ = 1 to lists do
    ignore (Sys.opaque_identity (unmarshal marshalled 0))
  done

let rounds = ref 0
let dropped = ref false

let round () =
  site_small ();
  site_live ();
  site_major ();
  site_bytes ();
  site_promoted ();
  site_unmarshal ();
  Gc.minor ();
  Array.fill survivors 0 promoted_blocks (0, 0, 0);
  dropped := false;
  incr rounds

let drop () =
  Array.fill live 0 live_blocks nothing;
  dropped := true

(* [promoted] is -1 if it depends on the moments of minor collections. *)
let print_site last name words_a_round ~live ~promoted =
  Printf.printf "%S:{\"allocated_words\":%d,\"live_words\":%d,\"promoted_words\":%d}%s" name
    (!rounds * words_a_round) live promoted (if last then "" else ",")

let answer () =
  let live_words = if !rounds = 0 || !dropped then 0 else live_blocks * 5 in
  Printf.printf "{\"rounds\":%d,\"sites\":{" !rounds;
  print_site false "site_small" (small_blocks * 4) ~live:0 ~promoted:(-1);
  print_site false "site_live" (live_blocks * 5) ~live:live_words
    ~promoted:(!rounds * live_blocks * 5);
  print_site false "site_major" (major_blocks * 1_001) ~live:0 ~promoted:0;
  print_site false "site_bytes" (bytes_blocks * 14) ~live:0 ~promoted:(-1);
  print_site false "site_promoted" (promoted_blocks * 4) ~live:0
    ~promoted:(!rounds * promoted_blocks * 4);
  print_site true "site_unmarshal" (lists * list_length * 3) ~live:0 ~promoted:(-1);
  let gc = Gc.quick_stat () in
  Printf.printf
    "},\"minor_words\":%.0f,\"promoted_words\":%.0f,\"major_words\":%.0f,\
     \"minor_collections\":%d,\"major_collections\":%d,\"heap_words\":%d}\n\
     %!"
    gc.minor_words gc.promoted_words gc.major_words gc.minor_collections gc.major_collections
    gc.heap_words

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "quiet" ] ->
    Gc.minor ();
    print_endline "{}";
    serve ()
  | words ->
    (match words with
    | [ "go"; n ] -> for _ = 1 to int_of_string n do round () done
    | [ "minor" ] -> Gc.minor ()
    | [ "full" ] -> Gc.full_major ()
    | [ "drop" ] -> drop ()
    | _ -> ());
    answer ();
    serve ()

let () =
  Gc.full_major ();
  Handshake.ready ();
  serve ()
