"""What bounds the dry run: every limit of the exploration and of what is followed, with its unit and its reason.

Work is counted in units: a statement is one, and a second of CPU time 60,000 to 150,000. What a limit leaves out is
unknown, which is never reported as if it were so, or it is said in a note (`CutShort`). Values are read as
`limits.NAME` where they are used, so that a test can set another.
"""

# -- the work that an analysis may take -------------------------------------------------------------------------------

RUN_BUDGET = 200_000
"""Work of one way through the program: two seconds, after which its author would look for another tool."""
TOTAL_BUDGET = 220_000
"""Work of a file: all ways from the module and from each function that is started."""
COLLECTING_BUDGET = 100_000
"""Work of all functions of a file that only collect: they can begin no backward and make nothing require grad."""
TURNED_BUDGET = 100_000
"""Work of one way that answers a condition otherwise, where less than that is left for further ways."""
FURTHER_WORK = 30_000
"""Work that further ways of one start may always take, however short the first way is."""
FURTHER_TIMES = 2
"""How many times the work of the first way the further ways may take where that is more."""
PROBE_TIMES = 2
"""How many times the work of the first way may be taken besides once conditions have to be tried together."""
LONGER_TIMES = 3
"""How many times the work of the first way one may take that answers several conditions otherwise."""
MOST_PROBES = 16
"""Ways that try conditions together, and those that this leads to, each time that there are too many."""
LOOP_WORK = 14_000
"""Work of one loop, over all times that it is entered from the same place: else it grows with each level of nesting."""
MOST_CALLERS = 16
"""Files of a project that are run for what they do in one that they import, the nearest first; most have fewer."""
CALLERS_BUDGET = 660_000
"""Work after which no more of them are run: that of three large files, seven seconds."""
MOST_FOLLOWED = 60
"""Files of its project into which a script that names nothing of autograd is followed: 0.2 s where none has any."""
WORK_BETWEEN_LOOKS = 512
"""Work after which the caller is asked again whether it still wants the answer: about 5 ms of a keystroke."""

# -- what things cost besides their statements, in units of work ------------------------------------------------------

RUN_WORK = 50
"""A way: the engine, the world and the module's namespace are made anew."""
CALL_WORK = 2
"""A call in the text, whatever is called."""
ITERATION_WORK = 3
"""An iteration of a loop: what it leaves behind is looked for."""
ROUND_WORK = 2
"""A round of a comprehension."""
OP_WORK = 8
"""An op of torch: its facts are looked up, its arguments bound and a node built."""
GRADIENT_WORK = 4
"""A node of a gradient that itself has a graph (`create_graph`)."""
WALKED_AGAIN_A_UNIT = 5
"""Nodes that a backward walks after others which have retained them, for one unit."""
AGAIN_WORK = 3
"""A call whose events are written again; each of the events is a unit more."""
WATCH_WORK = 2
"""Looking at the other side of a condition."""
PARTS_A_UNIT = 20
"""Parts of expressions that are worked out in a trial of a test for one unit."""
SEEN_FREE = 250
"""Objects that are looked through at the end of an iteration for nothing: most programs keep fewer."""
SEEN_A_UNIT = 3
"""Objects beyond those that are looked through for one unit."""

MOST_GIVEN = 32
"""Containers that opaque code was given before, the last ones, which are looked into when it is called again; all of
them at the end of the program.
"""

# -- the ways through a program ---------------------------------------------------------------------------------------

MAX_TURNED = 2
"""Conditions answered otherwise in one way: a mistake that needs three at once is said by nobody. Those of which one
at most can hold count as one.
"""
MOST_TOGETHER = 16
"""Ways of one start that answer two conditions otherwise of which neither showed anything alone, or one in turns: all
pairs of six, for a finding that says that something never comes.
"""
MOST_PASSED_BY = 8
"""Ways of one start that pass by a loop which may not go round, for such a finding."""
MOST_FAILING = 16
"""Ways of one start that have an exception raised which nobody has seen, for such a finding: two for each handler."""
FEWEST_COMBINED = 3
"""Conditions of a start of which more than a pair can hang together in a test that values decide."""
MOST_MORE_COMBINED = 32
"""Ways of one start that answer further ones of these, for such a finding, before it is a possible one."""
MOST_CHOOSING = 7
"""Conditions that choose what one statement acts upon of which all answers are tried together."""
MOST_COVERED = 32
"""Ways that this may take: each ends what is said for certain where the statement then does more than before."""
MOST_CALLEES = 20
"""Functions that are read to learn that a call builds no graph of its own; with more it is taken to build one."""
MOST_LIVED = 200
"""Objects that an entry's own refers to and whose attributes may have changed since they were made."""
MAX_NESTED_LOOPS = 5
"""Loops within loops that liveness follows exactly: each level doubles the work."""

# -- calls ------------------------------------------------------------------------------------------------------------

MAX_DEPTH = 48
"""Calls within calls that are followed; what lies deeper is unknown, and the user is told."""
NEAR_DEPTH = 30
"""The depth from which on a call is another one to a summary: what it calls may lie beyond `MAX_DEPTH`."""
MAX_RECURSION = 3
"""Calls of a function within itself: a first, a second and a third, as with the iterations of a loop."""
MAX_COUNTED_RECURSION = 12
"""The same, where a known number may count down or a known container be gone through."""
RECURSION_DECIDED = 3
"""Calls of a function within itself from which on undecided conditions are answered so that it comes to its end."""
MOST_SUMMED_UP = 6_000
"""Objects of a model whose forward is summed up: looking through more would take as long as running it."""
MOST_TRIED = 4
"""Calls of a function that could not be summed up, after which it is run each time."""
FEWEST_WORK = 16
"""Work of a call from which on a summary is worth its making: two ops."""

# -- loops ------------------------------------------------------------------------------------------------------------

MIN_ITERATIONS = 3
"""Iterations of a loop, as far as it has them: the second meets what the first left, the third what was left twice.
"""
MAX_ITERATIONS = 36
"""Iterations of a loop whose conditions compare what it counts: `if step % 32 == 0` comes out both ways in these."""
AFTER_REPEATING = 3
"""Iterations of a loop that repeats itself, though numbers that it compares outside of an `if` change, before its last.
"""
TIMES_LEFT = 1.5
"""How many times the work that is left the last iteration may have taken where another one is begun: that takes two
thirds of it, since loops in it run fewer iterations.
"""
SHORT_LOOP = 6
"""Iterations of a loop of known length that are run to the end, as long as they do little."""
MODEL_ITERATIONS = 1_024
"""The same over the parts of a model, rounds of comprehensions as well: each is one of its own."""
MOST_INSTRUCTIONS = 64
"""The same over texts that conditions of the loop ask for: names of layers in a configuration."""
MOST_ENTRIES = 8
"""Entries of dicts that are noted of an iteration: a loop over the keys of a dict comes to few with each."""
MAX_FED = 256
"""Iterations of a generator's loop: whoever takes what it yields says how often it goes round."""
MOST_COMPARED = 4
"""Iterations that are compared with the one before: a loop that has not repeated itself in these goes on as it is."""
MOST_JUMPS = 3
"""Guards (`if step > 1000`) that a loop is taken on to."""
AFTER_GUARD = 3
"""Iterations from such a guard on, as at the beginning of a loop."""
TIMES_CLEARED = 2
"""Times that a guard which clears gradients now and then is come to: the second clears what was added in between."""
FARTHEST = 100_000
"""Iterations that are looked through for the next one in which a guard that comes round does so."""
EXACT = 2**53
"""Whole numbers below this are all different as floats."""
UNREACHED = 2**63 - 1
"""`sys.maxsize`: hardly any number that a program counts or measures comes to it, or to infinity."""
MAX_ROUNDS = 64
"""Rounds of a comprehension of known length."""
TRAINED_ROUNDS = 4
"""Rounds of one of unknown length that runs backwards: one element, and three iterations of the loop that it then is.
"""
COUNTED_ROUNDS = 3
"""Rounds of one of unknown length that builds graphs and keeps nothing of them."""
BATCHES = 3
"""Batches that a framework's trainer is run for: a first, a second and a third."""
CLOSURE_CALLS = 3
"""Times that LBFGS asks its closure in one step, up to its `max_iter`."""
LOOP_BOUND = 3
"""Elements settled on for an iterable whose length nobody knows."""
SURE_ITERATIONS = 2
"""Iterations that a loop is taken to have whose length is not visible: for one alone nobody writes a loop."""
BATCHES_BOUND = 12
"""Batches, likewise, of a loader: what is done every second, third, fourth or sixth time is done in each epoch."""
LONGER_LENGTH = 100_003
"""Elements, likewise, where `LOOP_BOUND` leaves a range too short: `range(len(text) // 35)`."""
MOST_KEYS_ASKED = 64
"""Keys of a dict that are asked about in turn whether another key is the same, where nobody knows what these are."""
LONGER_LEAST = 16
"""Elements that a part of a list has then at least, if it grows with that: no remainder of a division. So has a range
that went round once.
"""
LONGER_WORK = 2
"""How many times the work of the usual way such a one may take that only lengthens what is there."""
LONGER_FREE = 10_000
"""Units of work that such a way may take in any case."""
LONGER_SHARE = 8
"""How many times the work of such a way has to be left for it to be run again with so many elements."""
OTHER_LENGTHS = (3, 1_009)
"""Elements, likewise, in ways that try whether a finding hangs on how many there are: few, and many that no small
number divides.
"""
LENGTHS_APART = 12
"""How many more of them the next thing has in such a way that has many: small numbers do not divide that either."""
LENGTHS_TRIED = 64
"""Lengths in a row for which another one is worked out that hangs on them: what divides them leaves all remainders."""
FORMULAS_KEPT = 1_024
"""Ways to work out a length from others for which all of these are kept."""
MOST_HELD_AGAINST = 4
"""Lengths, likewise, for which numbers that a way compares are equal."""
MOST_MEASURED = 8
"""Ways of one start that are tried with each of these."""
MOST_SETTLED = 1_000
"""Elements, likewise, where what is known of the length asks for more than `LOOP_BOUND`: not so many."""

# -- containers and streams -------------------------------------------------------------------------------------------

MAX_ITEMS = 64
"""Elements of a stream, a range or a text that are taken out one by one."""
MOST_KEPT = 4_096
"""Elements that a container is followed with as it grows; one that is written out larger has unknown ones."""
MAX_DRAINED = 1_024
"""Elements that one call draws from a stream that ends by itself."""
ENDLESS = 1_000_000
"""The length said of such a stream, in elements: a loop runs it to its end."""
COUNTABLE = 10_000
"""Elements below which a length is no `ENDLESS` one, but says where a `zip` ends."""
MAX_REPEATED = 512
"""Elements of a sequence times a number."""
MAX_COMBINED = 256
"""Elements that `itertools.product` and its like are followed for: they multiply."""
MOST_HASHED = 4_096
"""Parts of a key of a dictionary that is compared by value: tuples in tuples may share their parts."""
NAMED_ELEMENTS = 4
"""Elements of a tuple that are named after it, as for the state of an LSTM."""

# -- constants --------------------------------------------------------------------------------------------------------

MAX_TEXT = 10_000
"""Characters of a text that is worked out, and the largest number that a method of one is given."""
MAX_TEXT_WORK = 1_000_000
"""Characters times arguments of one method of a text: what formatting or replacing could come to."""
MAX_BITS = 4_096
"""Bits of a whole number that is worked out."""
MAX_EXPONENT = 1_000
"""Exponents, shifts, digits to round to, numbers that a factorial is taken of."""
MAX_RANGE = 1_000
"""Elements of a range that is handed to Python's own functions."""
PLAIN_DEPTH = 6
"""Containers within each other that are turned into Python's own."""
MAX_MESSAGE = 80
"""Characters of an exception's message."""

# -- unknown values, and what follows from the tests of them ----------------------------------------------------------

MOST_NAMED = 16
"""Items of a sequence by which what is worked out from it is known again."""
LARGEST_KEY = 500
"""Parts of an expression of unknowns by which it is known again: the same part may be in it many times."""
MOST_ANSWERED = 10
"""Answered tests that a condition is held against."""
MOST_UNKNOWNS = 3
"""Unknowns that a condition and those tests may speak of: their examples multiply."""
MOST_EXAMPLES = 150
"""Values that one unknown is tried with."""
MOST_TRIALS = 6_000
"""Combinations of values that a condition is tried with."""
MOST_WORKED_OUT = 200_000
"""Parts of expressions that are worked out for one condition, over all trials."""
MOST_COMPARED_PARTS = 200
"""Parts of expressions by which such a trial is known again: of more, telling them apart would take as long."""
MOST_TRIALS_KEPT = 4_000
"""Such trials whose outcome is kept, over all ways and files: a kilobyte each."""
MOST_COMBINED = 6
"""Numbers in a test whose sums and products are tried as well."""
LARGEST_COMBINED = 1e12
"""The largest of those sums and products."""
MOST_TEXTS = 6
"""Texts in tests that are tried with each other in them; elements that are looked for in containers."""
MAX_TRIED_EXPONENT = 64
"""Exponents in a test, which is tried with many values."""
LARGEST_DIVISOR = 50
"""The largest number that a test divides by: each remainder is tried."""
LONGEST_EXAMPLE = 1_000_000
"""Elements of a container that a test of a length is tried with."""

# -- graphs, and who keeps them ---------------------------------------------------------------------------------------

MAX_CUTS = 8
"""Places at which a graph was cut that a tensor remembers, the newest ones."""
MOST_MADE = 15
"""Graphs that an unknown object has computed and may still have, the newest ones but one."""
MOST_ESCAPING = 4_000
"""Nodes that one event hands to unknown code, the newest ones."""
MAX_SEEN = 4_000
"""Objects that are looked through for graphs at the end of an iteration."""
CHOSEN = 4
"""Classes or functions among which a setting chooses that are tried, each by a way of its own."""
COMPARED = 32
"""Entries of a table whose settings are held against each other."""
LOOKED_AT = 64
"""Elements of a container that are asked for graphs and methods where a condition is reached, or one is chosen."""
HELD_DEPTH = 4
"""Containers and objects within each other that are looked into for tensors."""
MAX_LOADS = 6
"""Reads of a variable in later iterations that are remembered, the newest ones."""
MAX_BACK = 40
"""Nodes back to which it is looked whether a store goes on from the one before it."""
MAX_VIEWS = 32
"""Views of one tensor that a change in place gives a new history."""
MOST_OUTPUTS = 64
"""Tensors that an op takes another one apart into, one by one."""
MOST_HANDED = 4_000
"""Values in which it is looked for what a compiled call has handed out."""

# -- models and optimizers --------------------------------------------------------------------------------------------

MAX_LAYERS = 64
"""Layers of a recurrent module, each of which has parameters of its own."""
MOST_REGISTERED = 5_000
"""Modules and parameters within one module."""
REPLACED_DEPTH = 4
"""Attributes within attributes of a model that was handed in, where the program may have put modules of its own."""
ESCAPE_DEPTH = 4
"""Containers and objects within each other whose parameters unknown code gets with them."""
MOST_APART = 50_000
"""Objects that a process comes to, whose state is put back when it has run: one that comes to more is not run."""
LOOKED_STEPS = 2
"""Steps of each optimizer at which is looked what it lacks: what is added to a module later has been added by then."""
LOOKED_STEPS_GROWN = 6
"""The same where leaves were made in between: a model that grows."""
MOST_MODULES = 400
"""Modules, and tensors outside of any, that are looked at there, the newest ones."""
LEAVES_DEPTH = 3
"""Plain containers and objects within each other that are looked into there."""
MOST_HOLDERS = 2_000
"""Containers and objects that are looked into there for one module."""
STORED_STEP_DEPTH = 2
"""Containers and objects within each other in which a stored step of an optimizer is looked for."""
MAX_NESTED_CONFIGURATIONS = 8
"""Dataclasses within dataclasses that a command line is read into: a class may name itself."""

# -- what is kept between analyses, and Python's own limits -----------------------------------------------------------

MAX_EVENTS = 350_000
"""Events that the tapes of a memory may hold, about 310 bytes each; what else is kept counts as so many events."""
START_EVENTS = 16
"""Events that a start counts as, though it has none."""
CHARACTERS_AN_EVENT = 300
"""Characters of a file's text that count as one event."""
DEPTH_OF_MEMBERS = 2
"""Containers within containers that are looked through for the objects whose methods a loop calls."""
MOST_BODIES = 1_000
"""Functions whose facts are kept: those of some files that are being edited."""
PYTHON_DEPTH = 12_000
"""Python's own calls within calls while a program is interpreted: one call of the program takes about twenty."""
MANY_ORIGINS = 64
"""Unknown values that another one is worked out from, where these are remembered."""
WORK_BETWEEN_COLLECTIONS = 400_000
"""Work of files behind which their garbage is collected, about 200 MB: a command over a few files never waits for that.
"""
OBJECTS_BETWEEN_COLLECTIONS = 200_000
"""New objects between two collections of garbage: those of a tape all stay, and collecting in between finds nothing."""
