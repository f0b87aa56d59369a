/* SPDX-License-Identifier: Apache-2.0 */
/* A long sum becomes a deep tree. */
%{
type tree = Number of int | Sum of tree * tree * string
%}
%token <int> NUMBER
%token PLUS END
%left PLUS
%start sum
%type <Obj.t> sum
%%
sum: tree END { Obj.repr $1 };
tree:
  | NUMBER { Number $1 }
  | tree PLUS NUMBER { Sum ($1, Number $3, String.make 20 'x') };
