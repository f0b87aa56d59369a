(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: more domains than a runtime allows by default (OCAMLRUNPARAM=d=N). Commands:

     spawn N    starts N domains, which wait for work
     go ROUNDS  every domain, including this one, allocates ROUNDS triples (4 words each) and,
                if ROUNDS exceeds one, an array of 1000 words, which it keeps
     few ROUNDS like go, but only in the 1st, the 129th and the 130th domain that were started
     drop       drops the arrays and runs a major collection
     exit

   Each answers {"domains":N,"words":N,"kept_words":N} when all domains have finished. *)

let lock = Mutex.create ()
let wake = Condition.create ()
let finished = Condition.create ()
let round = ref 0 (* number of the current round of work; -1: the end *)
let amount = ref 0
let busy = ref 0
let domains = ref []
let words = ref 0

let[@inline never] site_triple i = Sys.opaque_identity (i, i, i)
let[@inline never] site_kept () = Sys.opaque_identity (Array.make 999 0)
let kept = ref []

let allocate amount =
  for i = 1 to amount do ignore (site_triple i) done;
  let mine = if amount > 1 then [ site_kept () ] else [] in
  Mutex.protect lock (fun () ->
      kept := mine @ !kept;
      words := !words + (4 * amount))

let few = ref false
let has_work number = (not !few) || List.mem number [ 1; 129; 130 ]

let rec wait_for_work number seen =
  Mutex.lock lock;
  while !round = seen do Condition.wait wake lock done;
  let now, todo = (!round, if has_work number then !amount else 0) in
  Mutex.unlock lock;
  if now >= 0 then begin
    allocate todo;
    Mutex.protect lock (fun () ->
        decr busy;
        if !busy = 0 then Condition.signal finished);
    wait_for_work number now
  end

let spawn n =
  let seen = !round in
  for _ = 1 to n do
    let number = 1 + List.length !domains in
    domains := Domain.spawn (fun () -> wait_for_work number seen) :: !domains
  done

let set_round n =
  round := n;
  Condition.broadcast wake

let go only_few todo =
  Mutex.protect lock (fun () ->
      few := only_few;
      amount := todo;
      busy := List.length !domains;
      set_round (!round + 1));
  allocate (if only_few then 0 else todo);
  Mutex.protect lock (fun () -> while !busy > 0 do Condition.wait finished lock done)

let drop () =
  kept := [];
  Gc.full_major ()

let answer () =
  Printf.printf "{\"domains\":%d,\"words\":%d,\"kept_words\":%d}\n%!"
    (1 + List.length !domains) !words (1000 * List.length !kept)

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | command ->
    (match command with
     | [ "spawn"; n ] -> spawn (int_of_string n)
     | [ "go"; n ] -> go false (int_of_string n)
     | [ "few"; n ] -> go true (int_of_string n)
     | [ "drop" ] -> drop ()
     | words -> failwith (String.concat " " words));
    answer ();
    serve ()

let () =
  Handshake.ready ();
  serve ();
  Mutex.protect lock (fun () -> set_round (-1));
  List.iter Domain.join !domains;
  answer ()
