"""Arguments by keyword: the names are PyTorch's, for functions, methods and `nn.functional`."""

import pytest

import eager

torch = pytest.importorskip("torch")

# `L` is the library. Random draws are compared by shape.
FUNCTIONS = """
zeros(size=(2,3))
ones(size=(2,3))
empty(size=(2,3)).shape
rand(size=(2,3)).shape
randn(size=(2,3)).shape
full(size=(2,3),fill_value=2.)
randint(high=5,size=(2,3)).shape
randint(low=0,high=5,size=(2,)).shape
zeros(size=[2,3],dtype=L.long)
zeros_like(input=L.ones(2))
arange(start=0,end=5,step=2)
arange(end=5)
linspace(start=0,end=1,steps=5)
eye(n=3,m=2)
cat(tensors=[L.ones(2),L.ones(1)],dim=0)
stack(tensors=[L.ones(2),L.ones(2)],dim=1)
sum(input=L.ones(2,3),dim=1,keepdim=True)
mean(input=L.ones(2,3),dim=(0,1))
ones(2,3).view(size=(3,2))
ones(2,3).reshape(shape=(3,2))
ones(2,3).permute(dims=(1,0))
ones(2,3).expand(size=(4,2,3)).shape
ones(2,3).transpose(dim0=0,dim1=1)
reshape(input=L.ones(2,3),shape=(6,))
permute(input=L.ones(2,3),dims=(1,0))
transpose(input=L.ones(2,3),dim0=0,dim1=1)
flatten(input=L.ones(2,3,4),start_dim=1,end_dim=-1).shape
squeeze(input=L.ones(1,2),dim=0)
unsqueeze(input=L.ones(2),dim=0)
clamp(input=L.ones(2),min=0,max=.5)
where(condition=L.ones(2)>0,input=L.ones(2),other=L.zeros(2))
matmul(input=L.ones(2,3),other=L.ones(3,2))
bmm(input=L.ones(1,2,3),mat2=L.ones(1,3,2))
add(input=L.ones(2),other=1,alpha=2)
mul(input=L.ones(2),other=3)
pow(input=L.ones(2),exponent=2)
gather(input=L.ones(2,3),dim=1,index=L.zeros(2,1,dtype=L.long))
index_select(input=L.ones(2,3),dim=1,index=L.tensor([0,2]))
split(tensor=L.ones(6),split_size_or_sections=2,dim=0)
chunk(input=L.ones(6),chunks=2,dim=0)
topk(input=L.tensor([1.,3.,2.]),k=2,dim=0,largest=True,sorted=True)
sort(input=L.tensor([1.,3.,2.]),dim=0,descending=True)
max(input=L.tensor([1.,3.,2.]),dim=0)
argmax(input=L.tensor([1.,3.,2.]),dim=0)
softmax(input=L.ones(3),dim=0)
repeat_interleave(input=L.ones(2),repeats=2,dim=0)
tile(input=L.ones(2),dims=(2,))
ones(2).repeat(repeats=(2,2))
roll(input=L.ones(3),shifts=1,dims=0)
flip(input=L.ones(3),dims=(0,))
cumsum(input=L.ones(3),dim=0)
einsum('i,i->',L.ones(2),L.ones(2))
masked_fill(L.ones(2),mask=L.ones(2)>0,value=3)
ones(2).masked_fill(mask=L.ones(2)>0,value=3)
norm(input=L.ones(4),p=2,dim=0)
var(input=L.ones(4),dim=0,unbiased=False)
std(input=L.ones(4),dim=0,correction=0)
tril(input=L.ones(3,3),diagonal=1)
outer(input=L.ones(2),vec2=L.ones(2))
dot(input=L.ones(2),tensor=L.ones(2))
mm(input=L.ones(2,2),mat2=L.ones(2,2))
mv(input=L.ones(2,2),vec=L.ones(2))
addmm(input=L.ones(2,2),mat1=L.ones(2,2),mat2=L.ones(2,2),beta=1,alpha=2)
baddbmm(input=L.ones(1,2,2),batch1=L.ones(1,2,2),batch2=L.ones(1,2,2))
scatter(input=L.zeros(3),dim=0,index=L.tensor([0]),src=L.ones(1))
scatter(input=L.zeros(3),dim=0,index=L.tensor([0]),value=2.)
scatter_add(input=L.zeros(3),dim=0,index=L.tensor([0]),src=L.ones(1))
logsumexp(input=L.ones(3),dim=0)
allclose(input=L.ones(2),other=L.ones(2),rtol=1e-5,atol=1e-8)
isclose(input=L.ones(2),other=L.ones(2))
meshgrid(L.arange(2),L.arange(3),indexing='ij')
multinomial(input=L.ones(3),num_samples=2,replacement=True).shape
bernoulli(input=L.ones(3)).shape
normal(mean=0.,std=1.,size=(2,)).shape
histc(input=L.tensor([1.,2.]),bins=4,min=0,max=3)
bincount(input=L.tensor([1,2]),minlength=4)
unique(input=L.tensor([1,2,2]),sorted=True,return_inverse=True)
nonzero(input=L.tensor([1,0]),as_tuple=True)
diff(input=L.ones(3),n=1,dim=0)
cross(input=L.ones(3),other=L.ones(3),dim=0)
cdist(x1=L.ones(2,3),x2=L.ones(2,3),p=2.)
tensordot(a=L.ones(2,3),b=L.ones(3,2),dims=1)
movedim(input=L.ones(2,3),source=0,destination=1).shape
narrow(input=L.ones(3),dim=0,start=0,length=2)
unbind(input=L.ones(2,2),dim=0)
select(input=L.ones(2,2),dim=0,index=0)
lerp(input=L.zeros(2),end=L.ones(2),weight=.5)
quantile(input=L.arange(4.),q=.5,dim=0)
full_like(input=L.ones(2),fill_value=2)
rand_like(input=L.ones(2)).shape
randperm(n=4).shape
tensor(data=[1,2],dtype=L.float32)
as_tensor(data=[1,2])
"""
FUNCTIONAL = """
linear(input=L.ones(2,3),weight=L.ones(4,3),bias=L.ones(4))
conv2d(input=L.ones(1,1,4,4),weight=L.ones(1,1,3,3),bias=None,stride=1,padding=1,dilation=1,groups=1)
max_pool2d(input=L.ones(1,1,4,4),kernel_size=2,stride=2,padding=0)
avg_pool2d(input=L.ones(1,1,4,4),kernel_size=2,stride=2,padding=0,ceil_mode=False,count_include_pad=True)
adaptive_avg_pool2d(input=L.ones(1,1,4,4),output_size=1)
interpolate(input=L.ones(1,1,4,4),size=(8,8),scale_factor=None,mode='bilinear',align_corners=False)
pad(input=L.ones(2),pad=(1,1),mode='constant',value=0)
one_hot(L.tensor([0,1]),num_classes=3)
embedding(input=L.tensor([0]),weight=L.ones(2,3),padding_idx=None)
cross_entropy(input=L.ones(2,3),target=L.tensor([0,1]),weight=None,ignore_index=-100,reduction='mean',label_smoothing=.1)
layer_norm(input=L.ones(2,3),normalized_shape=(3,),weight=None,bias=None,eps=1e-5)
batch_norm(input=L.ones(2,3),running_mean=L.zeros(3),running_var=L.ones(3),weight=None,bias=None,training=False,momentum=.1,eps=1e-5)
group_norm(input=L.ones(1,4,2),num_groups=2,weight=None,bias=None,eps=1e-5)
dropout(input=L.ones(2),p=0.,training=True,inplace=False)
softmax(input=L.ones(2,3),dim=-1,dtype=None)
log_softmax(input=L.ones(2,3),dim=-1)
gelu(input=L.ones(2),approximate='tanh')
relu(input=L.ones(2),inplace=False)
leaky_relu(input=L.ones(2),negative_slope=.1)
normalize(input=L.ones(2,3),p=2.,dim=1,eps=1e-12)
cosine_similarity(x1=L.ones(2,3),x2=L.ones(2,3),dim=1)
mse_loss(input=L.ones(2),target=L.zeros(2),reduction='sum')
smooth_l1_loss(input=L.ones(2),target=L.zeros(2),beta=.5)
binary_cross_entropy_with_logits(input=L.ones(2),target=L.zeros(2),weight=None,pos_weight=None,reduction='none')
kl_div(input=L.zeros(2),target=L.ones(2),reduction='batchmean',log_target=False)
nll_loss(input=L.ones(2,3),target=L.tensor([0,1]))
scaled_dot_product_attention(query=L.ones(1,2,3,4),key=L.ones(1,2,3,4),value=L.ones(1,2,3,4),attn_mask=None,dropout_p=0.,is_causal=True)
unfold(input=L.ones(1,1,4,4),kernel_size=2,dilation=1,padding=0,stride=2)
fold(input=L.ones(1,4,4),output_size=(4,4),kernel_size=2,stride=2)
grid_sample(input=L.ones(1,1,4,4),grid=L.zeros(1,2,2,2),mode='bilinear',padding_mode='zeros',align_corners=False)
affine_grid(theta=L.ones(1,2,3),size=(1,1,2,2),align_corners=False)
pixel_shuffle(input=L.ones(1,4,2,2),upscale_factor=2)
conv_transpose2d(input=L.ones(1,1,4,4),weight=L.ones(1,1,2,2),bias=None,stride=2,padding=0,output_padding=0,groups=1,dilation=1)
glu(input=L.ones(4),dim=0)
gumbel_softmax(logits=L.ones(2,3),tau=1,hard=False,dim=-1).shape
triplet_margin_loss(anchor=L.ones(2,3),positive=L.ones(2,3),negative=L.zeros(2,3))
softplus(input=L.ones(2),beta=1,threshold=20)
hardtanh(input=L.ones(2),min_val=-1,max_val=1)
elu(input=L.ones(2),alpha=1.)
max_pool1d(input=L.ones(1,1,4),kernel_size=2)
"""
SPELLINGS = [f"L.{line}" for line in FUNCTIONS.strip().splitlines()]
SPELLINGS += [f"L.nn.functional.{line}" for line in FUNCTIONAL.strip().splitlines()]


def plain(value):
    """Shapes, dtypes and numbers."""
    if hasattr(value, "detach"):
        return [*value.shape], str(value.dtype).rpartition(".")[2], value.double().tolist()
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("text", SPELLINGS)
def test_keywords(text):
    ours, theirs = (plain(eval(text, {"L": library})) for library in (eager, torch))
    assert str(ours) == str(theirs) or ours == close(theirs)


def close(value):
    """A value that numbers near it equal, through nested lists."""
    if isinstance(value, list | tuple):
        return Nested(value)
    return pytest.approx(value, rel=1e-6) if isinstance(value, float) else value


class Nested:
    def __init__(self, values):
        self.values = [close(v) for v in values]

    def __eq__(self, other):
        return len(other) == len(self.values) and all(
            a == b for a, b in zip(other, self.values, strict=True)
        )


@pytest.mark.parametrize("text", ["zeros(3, dytpe=L.int64)", "ones(3, size=(2,))", "arange()"])
def test_what_no_argument_is_called_is_refused(text):
    with pytest.raises(TypeError):
        eval(f"L.{text}", {"L": eager})


@pytest.mark.parametrize("name", eager._METHODS_HERE + eager._ALSO_HERE)
def test_functions_that_are_methods_or_functional_too(name):
    assert callable(getattr(torch, name))
    assert callable(getattr(eager, name))
