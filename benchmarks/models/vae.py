"""A variational autoencoder of two MLPs (Kingma and Welling 2013); it draws its noise itself."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType, pixels: int = 784, width: int = 400, latent: int = 20) -> Any:
    """Model from x of shape (batch, pixels) to logits of x, mean and log variance."""
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(pixels, width)
            self.mean = nn.Linear(width, latent)
            self.log_variance = nn.Linear(width, latent)
            self.decoder = nn.Linear(latent, width)
            self.head = nn.Linear(width, pixels)

        def forward(self, x: Any) -> tuple[Any, Any, Any]:
            h = F.relu(self.encoder(x))
            mean, log_variance = self.mean(h), self.log_variance(h)
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
            return self.head(F.relu(self.decoder(z))), mean, log_variance

    return VAE()


def loss(torch: ModuleType, model: Any, x: Any) -> Any:
    """The negative evidence lower bound, of the mean row."""
    logits, mean, log_variance = model(x)
    rebuilt = torch.nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
    return (rebuilt + divergence) / x.shape[0]
