"""Views of which several come from one op, and views made under no_grad: what torch says of changing them in place."""

PROGRAMS = {
    "data counts its own changes": """
w = torch.randn(3, requires_grad=True)
x = torch.randn(3, requires_grad=True).data
y = (w * x).sum()
x.add_(1)
y.backward()  # raises
""",
    "data gets the graph of what is added to it": """
w = torch.randn(3, requires_grad=True)
x = torch.randn(3, requires_grad=True).data
x.add_(w * 2)
x.sum().backward()
x.exp().sum().backward()  # raises
""",
    "what was saved of a leaf does not count the changes of its data": """
w = torch.randn(3, requires_grad=True)
x = torch.randn(3, requires_grad=True)
data = x.data
y, z = (w * x).sum(), (w * data).sum()
data.add_(w.detach())
y.backward()
x.data.mul_(2)
z.backward()  # raises
""",
    "in place on split": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a = x.split(2)
a[0].add_(1)  # raises
x.sum().backward()
""",
    "in place on split unpacked, two": """
w = torch.rand(2, 4, requires_grad=True)
x = w * 2
a, b = x.split(1)
a *= 2  # raises
b.sum().backward()
""",
    "in place on split of data": """
w = torch.rand(4, requires_grad=True)
x = torch.rand(4, 4)
a = x.split(2)
a[0].add_(1)
(a[0] * w[:1]).sum().backward()
""",
    "in place with grad on split of data": """
w = torch.rand(1, requires_grad=True)
x = torch.rand(4, 4)
a = x.split(2)
a[0].mul_(w)  # raises
x.sum().backward()
""",
    "in place on leaf's split": """
x = torch.rand(4, 4, requires_grad=True)
a = x.split(2)
a[0].add_(1)  # raises
""",
    "in place on leaf's split no grad": """
x = torch.rand(4, 4, requires_grad=True)
a = x.split(2)
with torch.no_grad():
    a[0].add_(1)
""",
    "in place on unbind": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a = x.unbind(0)
a[0].add_(1)  # raises
x.sum().backward()
""",
    "in place on unbind unpacked, two": """
w = torch.rand(2, 4, requires_grad=True)
x = w * 2
a, b = x.unbind(0)
a *= 2  # raises
b.sum().backward()
""",
    "in place on unbind of data": """
w = torch.rand(4, requires_grad=True)
x = torch.rand(4, 4)
a = x.unbind(0)
a[0].add_(1)
(a[0] * w[:1]).sum().backward()
""",
    "in place with grad on unbind of data": """
w = torch.rand(1, requires_grad=True)
x = torch.rand(4, 4)
a = x.unbind(0)
a[0].mul_(w)  # raises
x.sum().backward()
""",
    "in place on leaf's unbind": """
x = torch.rand(4, 4, requires_grad=True)
a = x.unbind(0)
a[0].add_(1)  # raises
""",
    "in place on leaf's unbind no grad": """
x = torch.rand(4, 4, requires_grad=True)
a = x.unbind(0)
with torch.no_grad():
    a[0].add_(1)
""",
    "in place on tensor_split": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a = x.tensor_split(2)
a[0].add_(1)
x.sum().backward()
""",
    "in place on tensor_split unpacked, two": """
w = torch.rand(2, 4, requires_grad=True)
x = w * 2
a, b = x.tensor_split(2)
a *= 2
b.sum().backward()
""",
    "in place on base of tensor_split": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a = x.tensor_split(2)
x.add_(1)
a[0].sum().backward()
""",
    "in place on tensor_split no grad": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a = x.tensor_split(2)
with torch.no_grad():
    a[0].add_(1)
a[0].sum().backward()
""",
    "in place on tensor_split of data": """
w = torch.rand(4, requires_grad=True)
x = torch.rand(4, 4)
a = x.tensor_split(2)
a[0].add_(1)
(a[0] * w[:1]).sum().backward()
""",
    "in place with grad on tensor_split of data": """
w = torch.rand(1, requires_grad=True)
x = torch.rand(4, 4)
a = x.tensor_split(2)
a[0].mul_(w)
x.sum().backward()
""",
    "in place on leaf's tensor_split": """
x = torch.rand(4, 4, requires_grad=True)
a = x.tensor_split(2)
a[0].add_(1)  # raises
""",
    "in place on leaf's tensor_split no grad": """
x = torch.rand(4, 4, requires_grad=True)
a = x.tensor_split(2)
with torch.no_grad():
    a[0].add_(1)
""",
    "in place on a view of a split part": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a, b = x.split(2)
a[0].add_(1)  # raises
x.sum().backward()
""",
    "item assignment to a chunk": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a, b = x.chunk(2)
a[0] = 0  # raises
x.sum().backward()
""",
    "rows of a tensor changed in place": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
for row in x:
    row.mul_(2)  # raises
x.sum().backward()
""",
    "rows of zip changed in place": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
for i, row in enumerate(x):
    row += 1  # raises
x.sum().backward()
""",
    "unsafe_chunk in place": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a = x.unsafe_chunk(2)
a[0].add_(1)
a[0].sum().backward()
""",
    "lstm gates chunk sigmoid in place": """
w = torch.rand(4, 8, requires_grad=True)
x = torch.rand(4, 4) @ w
i, f = x.chunk(2, 1)
i = i.sigmoid_()  # raises
(i * f).sum().backward()
""",
    "relu inplace on chunk": """
w = torch.rand(4, 8, requires_grad=True)
x = torch.rand(4, 4) @ w
i, f = x.chunk(2, 1)
F.relu(i, inplace=True)  # raises
f.sum().backward()
""",
    "nn relu inplace on chunk": """
w = torch.rand(4, 8, requires_grad=True)
x = torch.rand(4, 4) @ w
i, f = x.chunk(2, 1)
y = nn.ReLU(inplace=True)(i)  # raises
y.sum().backward()
""",
    "split part cloned": """
w = torch.rand(4, 8, requires_grad=True)
x = torch.rand(4, 4) @ w
i, f = x.chunk(2, 1)
i = i.clone()
i.add_(1)
i.sum().backward()
""",
    "split part made under no_grad then changed": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
with torch.no_grad():
    a, b = x.chunk(2)
a.add_(1)  # raises
x.sum().backward()
""",
    "view made under no_grad then changed": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
with torch.no_grad():
    a = x.view(16)
a.mul_(2)  # raises
x.sum().backward()
""",
    "detached chunk changed": """
w = torch.rand(4, 4, requires_grad=True)
x = w.exp()
a, b = x.detach().chunk(2)
a.add_(1)
x.sum().backward()  # raises
""",
    "view of data made under no_grad": """
w = torch.rand(1, requires_grad=True)
x = torch.rand(4, 4)
with torch.no_grad():
    a = x.view(16)
a.mul_(w)  # raises
""",
    "view of leaf made under no_grad": """
w = torch.rand(4, requires_grad=True)
with torch.no_grad():
    a = w.view(2, 2)
a.mul_(2)  # raises
""",
    "view made under no_grad used, no change": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
with torch.no_grad():
    a = x.view(16)
a.sum().backward()
""",
    "view under no_grad, changed under no_grad": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
with torch.no_grad():
    a = x.view(16)
    a.mul_(2)
x.sum().backward()
""",
    "data chunk, base data changed, used in graph": """
w = torch.rand(2, 4, requires_grad=True)
x = torch.rand(4, 4)
a, b = x.chunk(2)
x.mul_(2)
(a * w).sum().backward()
""",
    "chunk then base rebinds": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a, b = x.chunk(2)
x = x + 1
(a + b).sum().backward()
""",
    "requires_grad_ on chunk of data, in place": """
x = torch.rand(4, 4)
a, b = x.chunk(2)
a.requires_grad_()
with torch.no_grad():
    a.add_(1)
(a * 2).sum().backward()
""",
    "set data of a chunk": """
w = torch.rand(4, 4, requires_grad=True)
a, b = (w * 2).chunk(2)
a.data.mul_(2)
(a + b).sum().backward()
""",
    "max of a chunk out param": """
w = torch.rand(4, 4, requires_grad=True)
x = w * 2
a, b = x.split([1, 3])
b[0] = 1  # raises
""",
    "broadcast_tensors in place": """
w = torch.rand(4, requires_grad=True)
a, b = torch.broadcast_tensors(w * 1, w * 2)
a.add_(1)
a.sum().backward()
""",
    "unbind dim 1 in place": """
w = torch.rand(4, 2, requires_grad=True)
mu, sigma = (w * 1).unbind(-1)
sigma.exp_()  # raises
""",
    "hn of lstm in place": """
m = nn.LSTM(4, 4)
o, (h, c) = m(torch.rand(3, 2, 4))
h.zero_()
o.sum().backward()
""",
    "o of lstm in place": """
m = nn.LSTM(4, 4)
o, (h, c) = m(torch.rand(3, 2, 4))
o.add_(1)
o.sum().backward()  # raises
""",
    "last of lstm in place": """
m = nn.GRU(4, 4)
o, h = m(torch.rand(3, 2, 4))
o[-1].add_(1)
o.sum().backward()
""",
    "max values in place": """
w = torch.rand(4, 2, requires_grad=True)
v, i = (w * 1).max(1)
v.add_(1)
v.sum().backward()
""",
    "topk in place": """
w = torch.rand(4, 2, requires_grad=True)
v, i = (w * 1).topk(1)
v.mul_(2)
v.sum().backward()
""",
    "a transposed matrix laid in order is a copy": """
m = nn.Linear(5, 6)
feats = torch.randn(7, 6)
loss = (m(torch.randn(3, 5)) @ feats.t().contiguous()).pow(2).mean()
feats[:2] = 0
loss.backward()
""",
    "a transposed matrix shares its memory": """
m = nn.Linear(5, 6)
feats = torch.randn(7, 6)
loss = (m(torch.randn(3, 5)) @ feats.t()).pow(2).mean()
feats[:2] = 0
loss.backward()  # raises
""",
    "twice transposed lies in order": """
w = torch.randn(4, 6, requires_grad=True)
feats = torch.randn(4, 6)
loss = (w * feats.t().t().contiguous()).sum()
feats.zero_()
loss.backward()  # raises
""",
    **{
        f"{view} reshaped by a copy": f"""
w = torch.zeros(4, 4, requires_grad=True)
w{view}.reshape(-1).mul_(2)
"""
        for view in (".unfold(0, 2, 2)", ".movedim(0, 1)", ".moveaxis(0, 1)", ".mH", ".adjoint()")
    },
    "a matrix whose axes are swapped twice lies in order": """
w = torch.zeros(4, 4, requires_grad=True)
w.adjoint().mT.reshape(-1).mul_(2)  # raises
""",
    "a permuted stack is reshaped by a copy": """
w = torch.randn(3, 24, requires_grad=True)
feats = torch.randn(3, 4, 6)
loss = (w * feats.permute(0, 2, 1).reshape(3, 24)).sum()
feats.zero_()
loss.backward()
""",
    "a stack in order is reshaped as a view": """
w = torch.randn(12, 6, requires_grad=True)
feats = torch.randn(3, 4, 6)
loss = (w * feats.reshape(12, 6)).sum()
feats.zero_()
loss.backward()  # raises
""",
    "normalised data that a product saved": """
m = nn.Linear(6, 6)
feats = F.normalize(torch.randn(24, 6), dim=1)
loss = (m(torch.randn(3, 6)) @ feats.t()).pow(2).mean()
feats[:8] = 0
loss.backward()  # raises
""",
}
